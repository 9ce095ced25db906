"""`Slot`: a job's place in a plan; `first_slot`: the first one of a job whose data are not everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from scheduler.data_way import HERE, Travel, still_to_come
from scheduler.policies.site_groups import GangSite, Parts
from scheduler.types import JobView, Option


class Slot(NamedTuple):
    """A job's place in the plan."""

    option: Option
    site: GangSite
    """Of a mixture the first one."""
    start_s: float
    end_s: float
    """By the upper ends of the way of its data and of the estimate."""
    parts: Parts = ()
    """Of a mixture: all its sites, and the devices in each."""
    goes_on: bool = False
    """On devices that it holds, whatever they are reserved for."""
    moves: bool = False
    """It runs by this option, and would have to on other devices than it holds: it is paused first."""
    data: Travel = HERE
    """Of which its data are on their way there."""
    nodes: Parts = ()
    """Where gangs span nodes: its sites node by node, where that was asked; see `SpanningSites`."""

    def to_come(self, now_s: float) -> Travel:
        """What is left of `data` at its start, as far as can be told. Data can be sent ahead to a node, but not to
        nodes that nobody knows yet."""
        if self.data is HERE:
            return HERE
        return still_to_come(self.data, self.start_s - now_s if self.site.name else 0.0)

    def finish_s(self, job: JobView, now_s: float) -> float:
        """By the middle of the estimate."""
        return self.start_s + self.to_come(now_s).mid_s + job.left_s(self.option)


class Reach(NamedTuple):
    """When a job may start, and by when it has to be done."""

    run_s: float
    """Upper end of its run."""
    latest_s: float
    """Of its start."""
    by_s: float
    """Of its end, its data brought before."""
    now_s: float
    ends_first: bool
    """The slot that ends first, not that which starts first. Of jobs that are placed the latter: else they would wait
    for a node with their data for as long as who runs there takes longer than was told."""


StartOf = Callable[[Parts, float, float], float]
"""(sites, seconds, latest start) -> the first start there; infinite: none."""


def first_slot(
    option: Option, places: Iterable[Parts], reach: Reach, start_of: StartOf, way_to: Callable[[str], Travel]
) -> Slot | None:
    """The first slot in any of the places. `way_to`: of the data to a place, by its name."""
    best: Slot | None = None
    best_s = math.inf
    for parts in places:
        site = parts[0][0]
        data = way_to(site.hint)
        whole_s = data.high_s + reach.run_s
        start_s = start_of(parts, whole_s, min(reach.latest_s, reach.by_s - whole_s))
        compared_s = start_s + data.high_s if reach.ends_first else start_s
        if compared_s < best_s:
            best_s = compared_s
            mixed = parts if len(parts) > 1 or option.parts else ()
            best = Slot(option, site, start_s, start_s + whole_s, mixed, data=data)
            if compared_s <= reach.now_s:
                break
    return best

"""Which rows of a step pricing some ways asks for: looked at together they take a fraction of the time. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from codegen.modes import STAGED
from scheduler.estimation.pipelines import micro_rows
from scheduler.estimation.ranks import at_once_of
from scheduler.estimation.split import line_rows
from scheduler.estimation.values import Allocation
from scheduler.workload import Workload


def rows_foreseen(workload: Workload, ways: Iterable[Allocation]) -> set[int]:
    """What a device of any of these ways takes at once, as far as the ways tell: the shares of mixtures come later."""
    ways = list(ways)
    whole = {max(way.batch_split) for way in ways if way.mode not in STAGED}
    staged = {max(way.batch_split) for way in ways if way.mode in STAGED}
    lines = line_rows(workload) if any(way.parts for way in ways) else []
    found = set(at_once_of(workload, {*whole, *lines}).values())
    return found.union(part for rows in staged for part in micro_rows(rows).values())

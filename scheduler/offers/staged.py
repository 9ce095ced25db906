"""Ways that cut the model into stages: which there are, and what they are compared by. Pure.

Where nobody asks for one, a pipeline is a way only if the program can be cut and learns the same so. Its estimate is
less certain than that of ranks with the whole model, it holds the number of its devices, and a lost rank of it restarts
all: what is nearly as good as one is never a pipeline. So it has to be better than the whole model on the same devices
by more than its range, and other ways are compared with the upper end of its energy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from codegen.modes import STAGED
from scheduler.estimation.pipelines import FEWEST_STAGES, PIPELINE, PIPELINES, pipelines_split
from scheduler.estimation.values import Allocation, Estimate
from scheduler.offers.candidates import Candidate
from scheduler.offers.values import OfferLine, Wish
from scheduler.offers.words import energy_words
from scheduler.workload import Workload
from worker.shares import even
from worker.words import duration_words

UNASKED = (2, 4, 8)
"""Stages of several pipelines that nobody asked for; one alone has one per device, up to the last of these numbers."""
DEEPEST = 1_000_000
"""Of a program whose pieces nobody knows: any number is worth a try to those who wish it."""

COMPARED = "It is compared with other ways by the upper end of its energy."
"""Said of a pipeline that nobody asked for: by its likely energy it may look cheaper than what is recommended."""


def staged_ways(workload: Workload, count: int, wish: Wish) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """(mode, stages, rows per rank) of the pipelines that so many devices make: all rows pass each stage of one."""
    rows, deepest = workload.global_batch_size, _deepest(workload, wish)
    for mode, numbers in _numbers(count, wish).items():
        for stages in numbers:
            pipelines, left = divmod(count, stages)
            fewest = 1 if mode == PIPELINE else 2
            if 1 < stages <= deepest and fewest <= pipelines <= rows and not left:
                yield mode, stages, pipelines_split(even(rows, pipelines), stages)


def _numbers(count: int, wish: Wish) -> dict[str, tuple[int, ...]]:
    """Mode -> stages that come into question."""
    named = (wish.stages,) if wish.stages else ()
    several = named or (UNASKED if wish.mode is None else (FEWEST_STAGES,))
    found = {PIPELINE: (count,) if wish.stages in (None, count) else (), PIPELINES: several}
    return {mode: numbers for mode, numbers in found.items() if wish.mode in (None, mode)}


def _deepest(workload: Workload, wish: Wish) -> int:
    """Most stages of a pipeline; 0: none is a way."""
    if wish.mode in STAGED:
        return DEEPEST if workload.pieces is None else len(workload.pieces)
    return min(UNASKED[-1], len(workload.pieces or ())) if learns_alike(workload) and not wish.whole else 0


def learns_alike(workload: Workload) -> bool:
    """Whether it learns in stages what it learns in one process, with all that its spec asks of ranks.

    Batch normalisation sees other rows in micro-batches; statistics of all ranks and parts of a rank's step are for
    ranks with the whole model.
    """
    return not workload.batch_norms and not workload.step_messages and workload.micro_batches == 1


def without_vain(
    ways: Sequence[Candidate], estimates: Mapping[Allocation, Estimate], wish: Wish
) -> tuple[Candidate, ...]:
    """The ways with an estimate, less pipelines that nobody asked for and that the same devices do not surely need.

    A pipeline is kept where none of them holds the whole model, or where the upper end of its time or energy lies below
    what the best way with the whole model is expected to take.
    """
    ways = tuple(way for way in ways if way.allocation in estimates)
    best: dict[tuple[str, str, int], tuple[float, float]] = {}
    for way in ways:
        cost = estimates[way.allocation]
        if cost.fits and not is_unasked(way.allocation, wish):
            run_s, energy_j = best.get(_devices(way.allocation), (math.inf, math.inf))
            best[_devices(way.allocation)] = min(run_s, cost.run_s.mid), min(energy_j, cost.energy_j.mid)

    def is_sure(way: Candidate) -> bool:
        cost, (run_s, energy_j) = estimates[way.allocation], best.get(_devices(way.allocation), (math.inf, math.inf))
        return cost.run_s.high < run_s or cost.energy_j.high < energy_j

    return tuple(way for way in ways if not is_unasked(way.allocation, wish) or is_sure(way))


def _devices(way: Allocation) -> tuple[str, str, int]:
    return way.kind, way.model_name, way.count


def is_unasked(way: Allocation, wish: Wish) -> bool:
    """Whether it is a pipeline that nobody asked for."""
    return way.mode in STAGED and wish.mode is None


def why_staged(line: OfferLine, lines: Iterable[OfferLine], wish: Wish) -> str:
    """Why a pipeline that nobody asked for is offered, in a sentence; empty for other ways."""
    way = line.allocation
    if not is_unasked(way, wish):
        return ""
    like = [other for other in lines if _devices(other.allocation) == _devices(way) and other.estimate.fits]
    whole = [other.estimate for other in like if other.allocation.mode not in STAGED]
    cut = f"{way.stages} stages" if way.stages else "stages"
    if not whole:
        return f"The model is cut into {cut}: none of these devices holds all of it with its rows."
    took, took_whole = _better_words(line.estimate, whole)
    return f"The model is cut into {cut}: so the run takes about {took}, and {took_whole} with the whole model on each."


def _better_words(cost: Estimate, whole: Sequence[Estimate]) -> tuple[str, str]:
    """(what it takes, what the best with the whole model takes): of time where it is surely better by that, else of
    energy."""
    run_s = min(other.run_s.mid for other in whole)
    if cost.run_s.high < run_s:
        return duration_words(cost.run_s.mid, up=True), duration_words(run_s, up=True)
    energy_j = min(other.energy_j.mid for other in whole)
    most_j = max(cost.energy_j.mid, energy_j)
    return energy_words(cost.energy_j.mid, beside_j=most_j), energy_words(energy_j, beside_j=most_j)


def cost_of(line: OfferLine, wish: Wish) -> tuple[float, float]:
    """(energy, upper finish): what ways are compared by."""
    energy_j = line.energy_j
    return (energy_j.high if is_unasked(line.allocation, wish) else energy_j.mid), line.latest_s

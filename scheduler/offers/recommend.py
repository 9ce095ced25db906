"""Which devices a job should get: every way to run it, priced; the cheapest in energy that keeps the deadline. Pure.

The offer minimises the energy's middle among ways whose UPPER finish keeps the deadline, so that the promise holds with
the probability of the interval. A way dominates another where its energy is no higher and its upper finish no later,
one of them strictly: the same two figures, so that what is offered is never dominated. Pipelines that nobody asked for
are compared by another figure (`scheduler.offers.staged`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from codegen.modes import ONE_PROCESS
from scheduler.data_way import still_to_come
from scheduler.estimation.values import Allocation, Estimate, Interval
from scheduler.offers.candidates import Candidate, DeviceGroup
from scheduler.offers.changes import changes_of
from scheduler.offers.mixtures import mixed_candidates
from scheduler.offers.staged import COMPARED, cost_of, is_unasked, staged_ways
from scheduler.offers.values import LEAST_CHANCE, Hindrance, Mark, Offer, OfferLine, Wish
from scheduler.offers.words import (
    BORROWED_WAY,
    NO_HOST_MEMORY,
    chance_words,
    kept_out_words,
    memory_words,
    refusal_text,
    reserved_text,
    way_words,
)
from scheduler.workload import Workload
from worker.shares import even
from worker.words import duration_words

EVERY_COUNT_TO = 64
"""Up to so many devices each number is a candidate; beyond it every eighth."""
WIDE_STEP = 8

RANKED = ("async",)
"""Modes beside sync whose ranks share out the rows."""

EstimateOf = Callable[[Candidate], Estimate]
StartOf = Callable[[Allocation, float], float | None]
"""(allocation, upper run time in seconds) -> unix time at which its devices are expected to be free; None: never."""


def candidates(workload: Workload, groups: Iterable[DeviceGroup], *, wish: Wish | None = None) -> tuple[Candidate, ...]:
    """All ways to run one step's batch on the groups: number of devices and mode of each, and mixtures of unlike ones.

    Nothing is filtered here.
    """
    groups, wish = list(groups), wish or Wish()
    found: list[Candidate] = []
    for group in groups:
        for count in _counts(group, wish.count):
            within = group.quota is None or count <= group.quota
            found += [
                Candidate(
                    allocation=allocation,
                    memory_limit_bytes=group.rank_memory_bytes(count, len(allocation.batch_split)),
                    within_quota=within,
                    borrows=group.promised_quota is not None and count > group.promised_quota,
                    has_memory=group.has_memory(count, alone=allocation.mode in ONE_PROCESS),
                    over_nodes=group.nodes if count > max(group.sizes, default=0) else (),
                )
                for allocation in _allocations(workload, group, count, wish)
            ]
    return (*found, *mixed_candidates(workload, groups, wish))


def _counts(group: DeviceGroup, fixed: int | None) -> list[int]:
    every = set(range(1, min(group.most, EVERY_COUNT_TO) + 1))
    wide = set(range(EVERY_COUNT_TO, group.most + 1, WIDE_STEP)) | ({group.most} if group.most else set())
    also = {fixed} if fixed is not None and fixed <= group.most else set()
    return sorted(every | wide | also)


def _allocations(workload: Workload, group: DeviceGroup, count: int, wish: Wish) -> list[Allocation]:
    """One process (all cores, or one GPU), and one rank per device where the batch has a row for each.

    So are pipelines by their stages, where they may be. Other modes are ways only where they are wished, as the one of
    the first two that they come from.
    """
    ways: list[Allocation] = []
    rows, wished = workload.global_batch_size, wish.mode
    cpu = group.kind == "cpu"
    within_node = count <= max(group.sizes, default=0)
    if count == 1 or (cpu and within_node):
        threads = count if cpu else group.threads_per_rank
        ways.append(_allocation(group, count, "single", (rows,), threads))
    if wished == "replicated" and count > 1 and within_node:
        # on GPUs each takes a share of the rows; on a CPU the memory of all replicas is that of the one process
        split = (rows,) if cpu else even(rows, count)
        ways.append(_allocation(group, count, "replicated", split, count if cpu else group.threads_per_rank))
    for mode, stages, split in staged_ways(workload, count, wish):
        threads = 1 if cpu else group.threads_per_rank
        ways.append(_allocation(group, count, mode, split, threads, stages=stages))
    if 1 < count <= rows:
        threads = 1 if cpu else group.threads_per_rank
        ways += [
            _allocation(group, count, mode, even(rows, count), threads)
            for mode in ("sync", *RANKED)
            if mode in ("sync", wished)
        ]
    return ways


def _allocation(
    group: DeviceGroup, count: int, mode: str, split: tuple[int, ...], threads: int, *, stages: int = 0
) -> Allocation:
    return Allocation(
        kind=group.kind,
        model_name=group.model_name,
        count=count,
        mode=mode,
        batch_split=split,
        threads=threads,
        stages=stages,
        most_on_node=group.most_on_node(count),
    )


def recommend(
    ways: Sequence[Candidate],
    *,
    estimate_of: EstimateOf,
    start_of: StartOf,
    now_s: float,
    deadline_s: float | None = None,
    wish: Wish | None = None,
    epochs: int = 1,
    epoch_steps: int = 0,
) -> Offer:
    """Price every candidate and mark the recommended, the fastest and the cheapest.

    Of ways that the scheduler was asked about (`Candidate.promised`) it says when they start and end, else `start_of`.
    `epochs` and the steps of one (0: not known) are for the words only.
    """
    wish = wish or Wish()
    priced = [_line(way, estimate_of, start_of, now_s) for way in ways]
    lines = _marked([_judged(line, way, deadline_s, wish) for line, way in zip(priced, ways, strict=True)], wish)
    chosen = next((line for line in lines if Mark.RECOMMENDED in line.marks), None)
    takeable = [line for line in lines if takes(line)]
    earliest = min((line.latest_s for line in takeable if line.promisable), default=None)
    most_j = max((line.energy_j.high for line in lines), default=0.0)
    refused = refusal_text(lines, now_s, deadline_s, earliest, wish)
    return Offer(
        now_s=now_s,
        deadline_s=deadline_s,
        wish=wish,
        lines=tuple(sorted(lines, key=lambda line: _reading_order(line, wish))),
        text=way_words(chosen, beside_j=most_j) if chosen else refused,
        earliest_finish_s=earliest,
        changes=() if chosen else changes_of(lines, now_s, deadline_s, wish, epochs, epoch_steps=epoch_steps),
    )


def reserved_offer(offer: Offer, until_s: float, *, open_ended: bool = False) -> Offer:
    """The offer of a pool whose devices are all reserved for something else, the first until `until_s` (unix time).

    Its lines start after that. `open_ended`: nobody can promise when that is.
    """
    told, then = "Every device that this job could take is reserved for something else", "it starts after that"
    if open_ended:
        then += ", and no finish is promised until then"
    lines = tuple(
        line if line.hindrance else replace(line, why=" ".join((line.why, f"Reserved: {then}.")).strip())
        for line in offer.lines
    )
    if offer.chosen:
        return replace(offer, lines=lines, text=f"{told}. After that: {offer.text}")
    within = duration_words(until_s - offer.now_s, up=True)
    later = f"Ask again in {within}, when the first reservation ends, or have an admin release it."
    return replace(offer, lines=lines, text=f"{told}.", changes=(later, *(offer.changes if lines else ())))


def partly_reserved_offer(offer: Offer, until_s: float, until: str) -> Offer:
    """The offer of a pool that has the devices asked for, but reserved: the first until `until_s`, `until` in words."""
    within = duration_words(until_s - offer.now_s, up=True)
    later = f"Ask again in {within}, when the first of these reservations ends, or have an admin release it."
    text = reserved_text(offer.lines, offer.wish, until)
    return replace(offer, text=text, changes=(later, *offer.changes))


def takes(line: OfferLine) -> bool:
    """The job could be run so, on time or not."""
    return line.hindrance in (None, Hindrance.DEADLINE) and line.finish_s is not None


def can_be_taken(line: OfferLine, wish: Wish) -> bool:
    """Whether a person may point at it and have its finish promised: other devices and another mode than were asked
    for, but none that drops what the spec demands."""
    return line.feasible or (line.hindrance is Hindrance.NOT_WISHED and wish.bears_loss(line.allocation))


def _line(way: Candidate, estimate_of: EstimateOf, start_of: StartOf, now_s: float) -> OfferLine:
    estimate, promised, finish, bringing = estimate_of(way), way.promised, None, way.bringing
    run, data = estimate.run_s, bringing.way
    start_s = promised.start_s if promised else start_of(way.allocation, data.high_s + run.high)
    if start_s is not None:
        start_s = max(start_s, now_s + way.before.time_s)
        latest_s = max(start_s + data.high_s + run.high, promised.end_s if promised else start_s)
        # Of data that are sent ahead of a start that is far off, nothing may be left to bring.
        likely_s = still_to_come(data, start_s - now_s).mid_s
        if bringing.likely_s != likely_s:
            bringing = replace(bringing, likely_s=likely_s)
        soonest_s, mid_s = start_s + min(bringing.low_s, likely_s) + run.low, start_s + likely_s + run.mid
        finish = Interval(low=soonest_s, mid=mid_s, high=latest_s, level=run.level)
    return OfferLine(
        estimate=estimate, memory_limit_bytes=way.memory_limit_bytes, start_s=start_s, finish_s=finish,
        before_s=way.before.time_s, before_j=way.before.energy_j, promisable=way.promisable,
        borrows=way.borrows, bringing=bringing,
    )  # fmt: skip


def _judged(line: OfferLine, way: Candidate, deadline_s: float | None, wish: Wish) -> OfferLine:
    """The first hindrance, those that no waiting removes first."""
    estimate = line.estimate
    if not estimate.fits:
        return replace(line, hindrance=Hindrance.MEMORY, why=memory_words(estimate, way.memory_limit_bytes))
    if not way.has_memory:
        return replace(line, hindrance=Hindrance.MEMORY, why=NO_HOST_MEMORY)
    if not way.within_quota:
        return replace(line, hindrance=Hindrance.QUOTA, why="More devices than the project's quota allows.")
    if not wish.allows(line.allocation):
        return replace(line, hindrance=Hindrance.NOT_WISHED, why=kept_out_words(line.allocation, wish))
    if line.finish_s is None:
        return replace(line, hindrance=Hindrance.NEVER_FREE, why="That many devices are not expected to be free.")
    if deadline_s is not None and not line.promisable:
        why = BORROWED_WAY if line.borrows else "No finish can be promised on these devices now."
        return replace(line, hindrance=Hindrance.DEADLINE, why=why)
    if deadline_s is not None and line.latest_s > deadline_s:
        chance = line.chance(deadline_s)
        text = f"It finishes up to {duration_words(line.latest_s - deadline_s, up=True)} after the deadline"
        on_time = f", and is on time with a chance of {chance_words(chance)}" if chance >= LEAST_CHANCE else ""
        return replace(line, hindrance=Hindrance.DEADLINE, why=f"{text}{on_time}.")
    return replace(line, why=COMPARED) if is_unasked(line.allocation, wish) else line


def _name(line: OfferLine) -> tuple[int, str, str, str]:
    way = line.allocation
    return way.count, way.kind, way.model_name, way.mode


def _marked(lines: list[OfferLine], wish: Wish) -> list[OfferLine]:
    costs = [cost_of(line, wish) for line in lines]
    takeable = [index for index, line in enumerate(lines) if takes(line)]
    feasible = [index for index in takeable if lines[index].feasible]
    marks: dict[int, list[Mark]] = {index: [] for index in takeable}
    if feasible:
        marks[min(feasible, key=lambda index: (costs[index], _name(lines[index])))].append(Mark.RECOMMENDED)
    if takeable:
        fastest = min(takeable, key=lambda index: (costs[index][::-1], _name(lines[index])))
        cheapest = min(takeable, key=lambda index: (costs[index], _name(lines[index])))
        marks[fastest].append(Mark.FASTEST)
        marks[cheapest].append(Mark.CHEAPEST)
    frontier = _frontier([(index, costs[index]) for index in takeable])
    return [
        replace(line, marks=tuple(marks[index]), frontier=index in frontier)
        if marks.get(index) or index in frontier
        else line
        for index, line in enumerate(lines)
    ]


def _frontier(points: list[tuple[int, tuple[float, float]]]) -> set[int]:
    """Indices that nothing dominates: by energy upwards, each must finish earlier than all cheaper ones."""
    kept: set[int] = set()
    best_finish, last = float("inf"), None
    for index, cost in sorted(points, key=lambda item: item[1]):
        if cost[1] < best_finish or cost == last:
            kept.add(index)
            best_finish, last = cost[1], cost
    return kept


def _reading_order(line: OfferLine, wish: Wish) -> tuple[bool, bool, float, tuple[int, str, str, str]]:
    return not line.feasible, not takes(line), cost_of(line, wish)[0], _name(line)

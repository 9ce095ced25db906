"""Gangs over unlike devices of one kind: which mixtures of models a pool could give, and what a run on one costs. Pure.

    step = max over models of (seconds of a rank on it for its rows) + allreduce over the slowest link

The rows are shared out as a run begins with (`scheduler.estimation.split`): all ranks end together by the estimates. Of
a mixture each model's part is estimated as a gang of that model alone with the same number of ranks, at the largest
share that a rank of it has; the mixture takes the worst of each figure, and the power of all. So does one in stages:
that a run cuts the model by the speed and the memory of each device is not counted on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain, combinations, product
from typing import TypeVar

from codegen.modes import STAGED
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import estimate_all, worst
from scheduler.estimation.in_precision import of_gang
from scheduler.estimation.probe import Probe
from scheduler.estimation.split import LEAST_ROWS, Member, gang_split, lone_seconds, most_rows, rank_line
from scheduler.estimation.steps import Steps
from scheduler.estimation.values import Allocation, Estimate, Interval
from scheduler.kinds import Parts, mixed_name
from scheduler.offers.staged import staged_ways
from scheduler.offers.values import Candidate, DeviceGroup, Wish
from scheduler.offers.words import split_words
from scheduler.workload import Workload
from worker.shares import Line, even

MODE = "sync"
"""Whose rows are split by speed. Other modes do not gain by unlike devices; stages on them are for a model that is too
large for each of them, or for who wishes stages."""
MOST_MIXTURES = 24
"""Of one kind of device; more are thinned out evenly by their size."""
EVERY_COUNT = 256
"""Up to so many mixtures of one place each is looked at; else only pairs of models with a power of two of devices
together, and all there is."""

Counts = tuple[int, ...]
Way = TypeVar("Way")
How = tuple[str, int, tuple[int, ...]]
"""(mode, stages or 0, rows per rank)."""


def mixed_candidates(workload: Workload, groups: Iterable[DeviceGroup], wish: Wish) -> list[Candidate]:
    """Mixtures that the pool could give and the wish allows, rows shared out evenly for now; at most `MOST_MIXTURES`
    for each kind of device."""
    if wish.mode not in {None, MODE, *STAGED}:
        return []
    named = [group for group in groups if group.model_name and wish.kind in {None, group.kind}]
    found = []
    for kind in sorted({group.kind for group in named}):
        like = sorted((group for group in named if group.kind == kind), key=lambda group: group.model_name)
        ways = [(counts, how) for counts in _counts(like, workload, wish) for how in _hows(workload, sum(counts), wish)]
        found += [_candidate(like, counts, how) for counts, how in _thinned(ways)]
    return [way for way in found if wish.model_name in {None, way.allocation.model_name}]


def _hows(workload: Workload, count: int, wish: Wish) -> list[How]:
    """How so many devices may share a step: by its rows, or, where that is wished, by stages of the model."""
    if wish.mode in STAGED:
        return list(staged_ways(workload, count, wish))
    return [(MODE, 0, even(workload.global_batch_size, count))]


def _counts(groups: Sequence[DeviceGroup], workload: Workload, wish: Wish) -> list[Counts]:
    """Devices of each group, of mixtures that lie together; the smallest first. Stages take no rows from each other."""
    rows = workload.global_batch_size
    most = sum(group.most for group in groups) if wish.mode in STAGED else rows // LEAST_ROWS
    found: set[Counts] = set()
    for caps in set(_places(groups)):
        found.update(
            counts
            for counts in _within(caps, wish.count)
            if sum(map(bool, counts)) > 1 and sum(counts) <= most and wish.count in {None, sum(counts)}
        )
    return sorted(found, key=lambda counts: (sum(counts), counts))


def _places(groups: Sequence[DeviceGroup]) -> Iterator[Counts]:
    """How many devices of each group one gang could have: on each node, or on all of them."""
    if all(group.spans_nodes for group in groups):
        yield tuple(sum(group.sizes) for group in groups)
        return
    yield from _on_each(groups).values()


def _on_each(groups: Sequence[DeviceGroup]) -> dict[str, Counts]:
    """Node -> devices of each group there."""
    on_node: dict[str, Counter[str]] = {}
    for group in groups:
        for node, size in zip(group.nodes, group.sizes, strict=False):
            on_node.setdefault(node, Counter())[group.model_name] += size
    return {node: tuple(sizes[group.model_name] for group in groups) for node, sizes in on_node.items()}


def _over_nodes(groups: Sequence[DeviceGroup], counts: Counts) -> tuple[str, ...]:
    """Nodes that a mixture may lie on; none where one of them has all of it."""
    if any(_holds(sizes, counts) for sizes in _on_each(groups).values()):
        return ()
    return tuple(sorted({node for group in groups for node in group.nodes}))


def _most_on_node(groups: Sequence[DeviceGroup], counts: Counts) -> int:
    """`DeviceGroup.most_on_node` of a mixture."""
    return max((sum(map(min, sizes, counts)) for sizes in _on_each(groups).values()), default=sum(counts))


def _holds(sizes: Counts, counts: Counts) -> bool:
    return all(have >= count for have, count in zip(sizes, counts, strict=True))


def _has_memory(groups: Sequence[DeviceGroup], counts: Counts) -> bool:
    """`DeviceGroup.has_memory` of a mixture."""
    asked_bytes, total = groups[0].asked_bytes, sum(counts)
    if not asked_bytes:
        return True
    hosts = {node: size for group in groups for node, size in zip(group.nodes, group.hosts_bytes, strict=True)}
    on_each = _on_each(groups)
    if any(hosts[node] >= asked_bytes and _holds(sizes, counts) for node, sizes in on_each.items()):
        return True
    most = sum(min(sum(map(min, sizes, counts)), hosts[node] * total // asked_bytes) for node, sizes in on_each.items())
    return all(group.spans_nodes for group in groups) and most >= total


def _within(caps: Counts, count: int | None) -> Iterator[Counts]:
    """Every mixture of the place, or where these are too many, coarser ones."""
    size = 1
    for cap in caps:
        size *= cap + 1
    if size <= EVERY_COUNT:
        return product(*(range(cap + 1) for cap in caps))
    totals = [count] if count is not None else [1 << power for power in range(1, sum(caps).bit_length())]
    return chain(chain.from_iterable(_pairs(caps, total) for total in totals), [caps])


def _pairs(caps: Counts, count: int) -> Iterator[Counts]:
    """So many devices, of two groups."""
    for first, second in combinations(range(len(caps)), 2):
        for number in range(max(1, count - caps[second]), min(caps[first], count - 1) + 1):
            counts = [0] * len(caps)
            counts[first], counts[second] = number, count - number
            yield tuple(counts)


def _thinned(found: Sequence[Way]) -> list[Way]:
    if len(found) <= MOST_MIXTURES:
        return list(found)
    last = len(found) - 1
    return [found[place * last // (MOST_MIXTURES - 1)] for place in range(MOST_MIXTURES)]


def _candidate(groups: Sequence[DeviceGroup], counts: Counts, how: How) -> Candidate:
    parts: Parts = tuple((group.model_name, count) for group, count in zip(groups, counts, strict=True) if count)
    inside = [group for group, count in zip(groups, counts, strict=True) if count]
    count, (mode, stages, split) = sum(counts), how
    held = tuple(filter(None, counts))
    over, together = _over_nodes(inside, held), _most_on_node(inside, held)
    limits = tuple(group.rank_memory_bytes(count, count, together=together) for group in inside)
    if over and groups[0].kind == "cpu":
        limits = (min(limits),) * len(limits)  # each node allows a rank as much as the tightest of them
    threads = 1 if groups[0].kind == "cpu" else min(group.threads_per_rank for group in inside)
    quota = min((group.quota for group in inside if group.quota is not None), default=None)
    allocation = Allocation(
        kind=groups[0].kind, model_name=mixed_name(parts), count=count, mode=mode, parts=parts, threads=threads,
        batch_split=split, stages=stages, most_on_node=together,
    )  # fmt: skip
    within = quota is None or count <= quota
    return Candidate(
        allocation=allocation, memory_limit_bytes=min(limits), part_limits_bytes=limits, within_quota=within,
        over_nodes=over, has_memory=_has_memory(inside, held),
    )  # fmt: skip


def is_there(groups: Iterable[DeviceGroup], allocation: Allocation) -> bool:
    """Whether the pool could still give these devices to one gang."""
    like = [group for group in groups if group.kind == allocation.kind]
    if not allocation.parts:
        return any(group.model_name == allocation.model_name and allocation.count <= group.most for group in like)
    wanted = dict(allocation.parts)
    inside = [group for group in like if group.model_name in wanted]
    if len(inside) < len(wanted):
        return False
    return any(
        all(cap >= wanted[group.model_name] for group, cap in zip(inside, caps, strict=True))
        for caps in _places(inside)
    )


def mixed_estimates(
    steps: Steps,
    ways: Sequence[Candidate],
    models: Mapping[str, DeviceModel],
    *,
    probes: Mapping[tuple[str, str], Probe] | None = None,
    even_shares: bool = False,
) -> dict[Allocation, Estimate]:
    """What runs on mixtures cost, by the candidates' allocations; without those where a device would only delay the
    others.

    `steps`: the same as for ways on like devices. `models`: by the names in the parts. `even_shares`: as the person
    wants it, not by speed.
    """
    found: dict[Allocation, Estimate] = {}
    for workload, alike in _by_precision(steps.workload, ways):
        if workload is steps.workload:
            found |= _mixed(steps, alike, models, probes or {}, even_shares)
        else:  # probes ran on one device, in what that takes alone
            found |= _mixed(Steps(workload), alike, models, {}, even_shares)
    return found


def _by_precision(workload: Workload, ways: Sequence[Candidate]) -> list[tuple[Workload, list[Candidate]]]:
    """The program as it computes on some mixtures: what is best for one model another may not be built for."""
    found: dict[str, tuple[Workload, list[Candidate]]] = {}
    for way in ways:
        agreed = of_gang(workload, [(way.allocation.kind, name) for name, _ in way.allocation.parts])
        found.setdefault(agreed.precision, (agreed, []))[1].append(way)
    return list(found.values())


def _mixed(
    steps: Steps,
    ways: Sequence[Candidate],
    models: Mapping[str, DeviceModel],
    probes: Mapping[tuple[str, str], Probe],
    even_shares: bool,
) -> dict[Allocation, Estimate]:
    split = _Split(steps, models)
    shared = {
        way.allocation: way.allocation if even_shares or way.allocation.mode in STAGED else split.of(way)
        for way in ways
    }
    alone: dict[str, list[tuple[Allocation, float | None]]] = {name: [] for name in models}
    for way in ways:
        found = shared[way.allocation]
        for (name, one), limit in zip(_alone(found), way.part_limits_bytes, strict=True):
            alone[name].append((one, limit))
    priced = {
        name: iter(estimate_all(steps, pairs, models[name], probe=probes.get(models[name].measured_key)))
        for name, pairs in alone.items()
    }
    estimates = {}
    for way in ways:
        found = shared[way.allocation]
        each = [next(priced[name]) for name, _ in found.parts]
        if all(found.batch_split):
            estimates[way.allocation] = _together(found, each)
    return estimates


def _alone(allocation: Allocation) -> Iterator[tuple[str, Allocation]]:
    """Each part as a gang of its model alone, with as many ranks, at the largest share that one of it has."""
    first = 0
    for name, count in allocation.parts:
        rows = max(1, *allocation.batch_split[first : first + count])
        first += count
        yield name, replace(allocation, model_name=name, parts=(), batch_split=(rows,) * allocation.count)


class _Split:
    """Rows per rank as a run would begin, of many mixtures of the same models."""

    def __init__(self, steps: Steps, models: Mapping[str, DeviceModel]) -> None:
        """What is looked at is kept: mixtures differ in little."""
        self._workload, self._models = steps.workload, models
        own_speed = {model.measured_key: replace(model, slowdown=1.0) for model in models.values()}
        own_s = {key: lone_seconds(steps, model) for key, model in own_speed.items()}
        self._alone = {
            name: [(rows, seconds * model.slowdown) for rows, seconds in own_s[model.measured_key]]
            for name, model in models.items()
        }
        self._line = lru_cache(maxsize=None)(self._line_of)
        self._most = lru_cache(maxsize=None)(self._most_of)

    def of(self, way: Candidate) -> Allocation:
        """The allocation with its shares; even ones where the memory is too small for any split."""
        allocation = way.allocation
        members: list[Member] = []
        for (name, count), limit in zip(allocation.parts, way.part_limits_bytes, strict=True):
            line = self._line(name, allocation.count, allocation.ranks_together, allocation.threads)
            members += [Member(name=name, seconds_of=line, most=self._most(name, limit))] * count
        try:
            shares = gang_split(self._workload.global_batch_size, members).shares
        except ValueError:
            return allocation
        return replace(allocation, batch_split=shares)

    def _line_of(self, name: str, ranks: int, together: int, threads: int) -> Line:
        model, alone = self._models[name], self._alone[name]
        return rank_line(self._workload, model, ranks=ranks, together=together, threads=threads, alone=alone)

    def _most_of(self, name: str, limit_bytes: int) -> int:
        return most_rows(self._workload, self._models[name], limit_bytes)


def _together(allocation: Allocation, each: Sequence[Estimate]) -> Estimate:
    """The worst of each figure: ranks wait for the slowest, and the run for the last to start."""
    part_w = [
        one.power_w * count / one.allocation.count for one, (_, count) in zip(each, allocation.parts, strict=True)
    ]
    power_w = sum(part_w)
    # As if all were off to the same side: tables and meters of one kind of device may well be.
    power_half = sum(watts * one.power_half for watts, one in zip(part_w, each, strict=True)) / max(power_w, 1e-9)
    run_s = _latest([one.run_s for one in each])
    return Estimate(
        allocation=allocation,
        step_s=_latest([one.step_s for one in each]),
        run_s=run_s,
        peak_bytes=_latest([one.peak_bytes for one in each]),
        power_w=power_w,
        power_half=power_half,
        energy_j=run_s.times(power_w, power_half),
        fits=all(one.fits for one in each),
        time_basis=worst(*(one.time_basis for one in each)),
        memory_basis=worst(*(one.memory_basis for one in each)),
        energy_basis=worst(*(one.energy_basis for one in each)),
        epoch_s=max(each, key=lambda one: one.run_s.mid).epoch_s,
        start_s=max(one.start_s for one in each),
        note="; ".join(dict.fromkeys(filter(None, (split_words(allocation), *(one.note for one in each))))),
    )


def _latest(ranges: Sequence[Interval]) -> Interval:
    ends = {name: max(getattr(one, name) for one in ranges) for name in ("low", "mid", "high")}
    return Interval(**ends, level=ranges[0].level)

"""Gangs over unlike devices of one kind: which mixtures of models a pool could give. Pure.

What a run on one costs says `scheduler.offers.mixed_estimates`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, product
from typing import TypeVar

from codegen.modes import STAGED
from scheduler.estimation.split import LEAST_ROWS
from scheduler.estimation.values import Allocation
from scheduler.kinds import Parts, mixed_name
from scheduler.offers.candidates import Candidate, DeviceGroup
from scheduler.offers.staged import staged_ways
from scheduler.offers.values import Wish
from scheduler.workload import Workload
from worker.shares import even

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


def _over_nodes(on_each: Mapping[str, Counts], groups: Sequence[DeviceGroup], counts: Counts) -> tuple[str, ...]:
    """Nodes that a mixture may lie on; none where one of them has all of it."""
    if any(_holds(sizes, counts) for sizes in on_each.values()):
        return ()
    return tuple(sorted({node for group in groups for node in group.nodes}))


def _most_on_node(on_each: Mapping[str, Counts], counts: Counts) -> int:
    """`DeviceGroup.most_on_node` of a mixture."""
    return max((sum(map(min, sizes, counts)) for sizes in on_each.values()), default=sum(counts))


def _holds(sizes: Counts, counts: Counts) -> bool:
    return all(have >= count for have, count in zip(sizes, counts, strict=True))


def _has_memory(on_each: Mapping[str, Counts], groups: Sequence[DeviceGroup], counts: Counts) -> bool:
    """`DeviceGroup.has_memory` of a mixture."""
    asked_bytes, total = groups[0].asked_bytes, sum(counts)
    if not asked_bytes:
        return True
    hosts = {node: size for group in groups for node, size in zip(group.nodes, group.hosts_bytes, strict=True)}
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
    held, on_each = tuple(filter(None, counts)), _on_each(inside)
    over, together = _over_nodes(on_each, inside, held), _most_on_node(on_each, held)
    limits = tuple(group.rank_memory_bytes(count, count, together=together) for group in inside)
    if over and groups[0].kind == "cpu":
        limits = (min(limits),) * len(limits)  # each node allows a rank as much as the tightest of them
    threads = 1 if groups[0].kind == "cpu" else min(group.threads_per_rank for group in inside)
    quota = min((group.quota for group in inside if group.quota is not None), default=None)
    lent_from = min((group.promised_quota for group in inside if group.promised_quota is not None), default=None)
    allocation = Allocation(
        kind=groups[0].kind, model_name=mixed_name(parts), count=count, mode=mode, parts=parts, threads=threads,
        batch_split=split, stages=stages, most_on_node=together,
    )  # fmt: skip
    within = quota is None or count <= quota
    return Candidate(
        allocation=allocation, memory_limit_bytes=min(limits), part_limits_bytes=limits, within_quota=within,
        borrows=lent_from is not None and count > lent_from, over_nodes=over,
        has_memory=_has_memory(on_each, inside, held),
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

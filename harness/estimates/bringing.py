"""The way of the data to nodes that do not have them, as an offer counts and tells it. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from harness.calibration.known import powers_known
from harness.estimates.models import OfferRow
from harness.jobs.control.data_ways import DataWays, dataset_of
from harness.jobs.control.metered import idle_power_of
from harness.pool.caches import caches_get
from harness.pool.models import Node
from harness.pool.services import pool_setting_get
from scheduler.estimation.estimate import worst
from scheduler.estimation.values import Basis
from scheduler.kinds import real_name
from scheduler.offers.bringing import Bringing
from scheduler.offers.candidates import Candidate, DeviceGroup
from scheduler.offers.values import OfferLine
from worker.words import size_words

_ASSUMED = (
    "Data come to {} at {}/s: that is assumed until it has fetched a dataset, and an admin can set it on the pool page."
)


def dataset_of_offer(row: OfferRow) -> str:
    """The dataset of what is priced, by its name in the store; empty for a workload from outside, which tells none."""
    if row.job is not None:
        return dataset_of(row.job)
    return row.inspection.dataset_sha256 if row.inspection else ""


def with_bringing(row: OfferRow, ways: tuple[Candidate, ...], groups: Sequence[DeviceGroup]) -> tuple[Candidate, ...]:
    """The ways with what brings the data: to the node that is planned, else to that with the longest way of all on
    which the job may be put."""
    dataset = dataset_of_offer(row)
    if not dataset or not (caches := caches_get()):
        return ways
    known = DataWays(caches, pool_setting_get().data_mib_per_s, [dataset])
    if (data := known.of(dataset)) is None:
        return ways
    places = _Places(groups)
    allocations = [way.allocation for way in ways]
    powers = powers_known({(one.kind, real_name(name)[0]) for one in allocations for name, _ in one.by_model})

    def brought(way: Candidate) -> Candidate:
        nodes = [way.promised.node] if way.promised and way.promised.node else places.of(way)
        found = {node: data.to(node) for node in nodes}
        longest = max(found, key=lambda node: (found[node], node), default="")
        if not found or not found[longest].mid_s:
            return way
        soonest, on = min(found.values()), way.allocation
        idle = [(idle_power_of(powers[on.kind, real_name(name)[0]]), count) for name, count in on.by_model]
        bringing = Bringing(
            seconds=found[longest].mid_s, high_s=max(one.high_s for one in found.values()), least_s=soonest.mid_s,
            low_s=min(one.low_s for one in found.values()), node=longest, basis=known.basis(longest),
            idle_w=sum(power.watts * count for power, count in idle),
            idle_basis=worst(*(power.basis for power, _ in idle)),
            size_bytes=round(data.size_bytes * (1.0 - data.arrived.get(longest, 0.0))),
        )  # fmt: skip
        return replace(way, bringing=bringing)

    return tuple(map(brought, ways))


class _Places:
    """Which nodes a way may be put on, by name."""

    def __init__(self, groups: Sequence[DeviceGroup]) -> None:
        self._names = dict(Node.objects.values_list("pk", "name"))
        self._groups = {(group.kind, group.model_name): group for group in groups}

    def of(self, way: Candidate) -> list[str]:
        """All of the devices' models where a gang may span nodes, else those that have all of it."""
        inside = [(self._groups[way.allocation.kind, name], count) for name, count in way.allocation.by_model]
        if way.over_nodes or any(group.spans_nodes for group, _ in inside):
            return self._named({node for group, _ in inside for node in group.nodes})
        fitting = [
            {node for node, size in zip(group.nodes, group.sizes, strict=True) if size >= count}
            for group, count in inside
        ]
        return self._named(set.intersection(*fitting))

    def _named(self, nodes: Iterable[str]) -> list[str]:
        return [self._names[node] for node in nodes if node in self._names]


def bringing_notes(lines: Sequence[OfferLine]) -> list[str]:
    """Of each rate that nobody has measured."""
    assumed: Mapping[str, Bringing] = {
        line.bringing.node: line.bringing for line in lines if line.bringing.basis is Basis.ASSUMED
    }
    return [
        _ASSUMED.format(f"node {node}", size_words(found.size_bytes / found.seconds))
        for node, found in sorted(assumed.items())
    ]

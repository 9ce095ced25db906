"""The kinds of device that an offer can choose among, as the pool has them now. Reads only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from django.utils import timezone

from harness.accounts.models import Project
from harness.estimates.openings import Key, device_key, reservations_now
from harness.jobs.control.plans import MEMORY_FLOOR_BYTES, MEMORY_SHARE
from harness.pool.gangs import gang_problem
from harness.pool.idle import IDLE_CPU_BYTES, IDLE_CUDA_BYTES
from harness.pool.models import Device, DeviceKind, Node, NodeState, Quota
from harness.pool.services import pool_setting_get
from scheduler.offers.candidates import DeviceGroup
from scheduler.types import Option


def groups_read(
    project: Project | None, *, memory_bytes: int = 0, with_reserved: bool = False
) -> tuple[DeviceGroup, ...]:
    """The kinds of device of nodes that take work, without devices reserved now for others, and the project's quota.

    `with_reserved`: those as well.
    `memory_bytes`: what the person fixed for the whole run; 0: the share that goes with the devices.
    """
    now = timezone.now()
    kept_off = [] if with_reserved else reservations_now(project, now)
    reserved = {row.node_id or row.device_id or "" for row in kept_off}
    up = list(Node.objects.filter(state=NodeState.UP))
    nodes: dict[Key, dict[str, list[_Device]]] = defaultdict(lambda: defaultdict(list))
    cores: dict[str, int] = defaultdict(int)
    gpus: dict[str, int] = defaultdict(int)
    for device in _devices_of(up):
        node_id = device.node.pk
        if not device.is_away and device.pk not in reserved and node_id not in reserved:
            nodes[device.key][node_id].append(device)
        (cores if device.key[0] == DeviceKind.CPU else gpus)[node_id] += 1
    quotas = {row.device_kind: row for row in Quota.objects.filter(project=project)}
    setting = pool_setting_get()
    spans = setting.span_nodes and not gang_problem(up, setting)
    return tuple(
        replace(_limited(_group(key, by_node, cores, gpus, memory_bytes), quotas.get(key[0])), spans_nodes=spans)
        for key, by_node in sorted(nodes.items())
    )


def _limited(group: DeviceGroup, quota: Quota | None) -> DeviceGroup:
    """With the project's quota."""
    if quota is None:
        return group
    return replace(group, promised_quota=quota.devices) if quota.may_borrow else replace(group, quota=quota.devices)


class _Device(NamedTuple):
    """Of a node that is up, as a plain value: a pool has thousands."""

    pk: str
    node: Node
    key: Key
    memory_bytes: int
    is_away: bool


def _devices_of(nodes: Sequence[Node]) -> list[_Device]:
    """Node by node, in the order of these."""
    by_node: dict[str, list[_Device]] = {node.pk: [] for node in nodes}
    of_id = {node.pk: node for node in nodes}
    columns = ("pk", "node_id", "kind", "model_name", "slowdown", "memory_bytes", "away_since")
    rows = Device.objects.filter(node__in=of_id).values_list(*columns)
    for pk, node_id, kind, name, slowdown, size, away_since in rows:
        device = _Device(pk, of_id[node_id], device_key(kind, name, slowdown), size, away_since is not None)
        by_node[node_id].append(device)
    return [device for devices in by_node.values() for device in devices]


def kinds_known() -> frozenset[Key]:
    """Kind and name of every device in the pool, whether its node takes work or not."""
    return frozenset(device_key(*row) for row in Device.objects.values_list("kind", "model_name", "slowdown"))


def most_together(*, with_away: bool = False, at_work: bool = False) -> dict[Key, int]:
    """Devices of each kind and name that one job can hold at most; nodes that are down or drained count, too.

    `with_away`: devices that their node does not report now as well; they may be back in a moment. `at_work`: of nodes
    that are up and do not drain alone.
    """
    sizes: dict[Key, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    devices = Device.objects.all() if with_away else Device.objects.filter(away_since=None)
    if at_work:
        devices = devices.filter(node__state=NodeState.UP)
    for kind, name, slowdown, node in devices.values_list("kind", "model_name", "slowdown", "node"):
        sizes[device_key(kind, name, slowdown)][node] += 1
    spans = pool_setting_get().span_nodes
    return {key: (sum if spans else max)(by_node.values()) for key, by_node in sizes.items()}


def option_there(option: Option, most: Mapping[Key, int]) -> bool:
    """Whether the pool has as many of such devices as the option takes."""
    return not option.model_name or all(most.get((option.kind, name), 0) >= count for name, count in option.by_model)


def _group(
    key: Key,
    by_node: Mapping[str, list[_Device]],
    cores: Mapping[str, int],
    gpus: Mapping[str, int],
    memory_bytes: int,
) -> DeviceGroup:
    kind, model_name = key
    sizes = tuple(len(devices) for devices in by_node.values())
    first = [devices[0] for devices in by_node.values()]
    hosts = tuple(device.node.memory_bytes for device in first)
    if kind == DeviceKind.CUDA:
        return DeviceGroup(
            kind=kind, model_name=model_name, sizes=sizes, nodes=tuple(by_node),
            memory_bytes=min(device.memory_bytes for device in first),
            idle_bytes=IDLE_CUDA_BYTES, asked_bytes=memory_bytes, hosts_bytes=hosts,
            threads_per_rank=min(max(1, device.node.cpu_cores // gpus[device.node.pk]) for device in first),
        )  # fmt: skip
    usable = [int(device.node.memory_bytes * MEMORY_SHARE) for device in first]
    share = min(most // cores[device.node.pk] for most, device in zip(usable, first, strict=True))
    return DeviceGroup(
        kind=kind, model_name=model_name, sizes=sizes, nodes=tuple(by_node), idle_bytes=IDLE_CPU_BYTES,
        memory_bytes=0 if memory_bytes else share,
        memory_floor_bytes=memory_bytes or min(MEMORY_FLOOR_BYTES, min(usable)),
        asked_bytes=memory_bytes, hosts_bytes=hosts,
    )  # fmt: skip

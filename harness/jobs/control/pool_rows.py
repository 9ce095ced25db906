"""The nodes of the pool and their devices as the pure scheduler sees them. Reads only."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from django.utils import timezone

from harness.jobs.control.held import Held, names_at_start
from harness.jobs.models import Job
from harness.jobs.options import wanted_memory_bytes
from harness.pool.gangs import gang_problem
from harness.pool.models import Device, Node, NodeState, PoolSetting, Reservation
from harness.pool.networks import networks_everywhere
from harness.pool.reports import TWINS_AT
from scheduler.job_view import SPAN_LEVEL, memory_by_node
from scheduler.kinds import declared_name
from scheduler.types import DeviceKey, DeviceView, NodeView, PoolView, Reserved
from worker.sandbox import SandboxLevel

_AWAY = (Reserved(start_s=-math.inf, end_s=math.inf, purpose="its node does not see it"),)
"""Of a device that is away: nobody else gets it, so nobody is paused for it."""


def pool_view(now: datetime, setting: PoolSetting, holding: Sequence[Held]) -> PoolView:
    """Nodes, devices, and what is reserved from now on."""
    memory, (devices, unseen) = _memory_held(holding), _devices(now, holding)
    nodes = list(Node.objects.defer("description", "running", "check_result"))
    apart, resting = gang_problem(nodes, setting), _resting(nodes)
    view = PoolView(
        spans_nodes=setting.span_nodes and not apart,
        apart=apart,
        span_level=SandboxLevel.L3 if setting.ranks_apart and networks_everywhere() else SPAN_LEVEL,
        nodes=tuple(
            NodeView(
                name=node.name,
                takes_work=node.state == NodeState.UP,
                draining=node.drain_wanted and node.state == NodeState.DRAIN,
                clock_off=resting.get(node.pk) is False,
                twins=resting.get(node.pk, False),
                sandbox_level=node.sandbox_level,
                memory_bytes=node.memory_bytes,
                memory_held_bytes=memory.get(node.pk, 0),
                devices=tuple(devices[node.pk]),
                unseen=tuple(unseen[node.pk]),
                near=node.near,
            )
            for node in nodes
        ),
    )
    needed = (setting.minimum_sandbox_level_own_code, setting.minimum_sandbox_level_generated)
    return view.levelled(needed) if view.spans_nodes else view


def _resting(nodes: Sequence[Node]) -> dict[str, bool]:
    """Those that are given nothing though no admin wishes it, by key: whether because two machines report as one; else
    its clock is off."""
    resting = [node.pk for node in nodes if node.state == NodeState.DRAIN and not node.drain_wanted]
    if not resting:
        return {}
    twins = Node.objects.filter(pk__in=resting, description__has_key=TWINS_AT).values_list("pk", flat=True)
    return {**dict.fromkeys(resting, False), **dict.fromkeys(twins, True)}


def reservation_followed(pool: PoolView, row: Reservation, seen_s: float) -> PoolView:
    """The pool of that moment with what has been done to a reservation since then: it was made, or cancelled. One that
    has begun meanwhile is as if it had begun before."""
    now = timezone.now()
    kept = _kept(row, now)
    begun = replace(kept, start_s=seen_s) if seen_s < kept.start_s <= now.timestamp() else kept

    def followed(device: DeviceView) -> DeviceView:
        reserved = [*device.reserved]
        if row.cancelled_at is None:
            reserved.append(begun)
        elif kept in reserved:
            reserved.remove(kept)
        return replace(device, reserved=tuple(reserved))

    def is_meant(node: NodeView, device: DeviceView) -> bool:
        return device.device_id == row.device_id or (row.node is not None and row.node.name == node.name)

    nodes = []
    for node in pool.nodes:
        devices = (followed(device) if is_meant(node, device) else device for device in node.devices)
        nodes.append(replace(node, devices=tuple(devices)))
    return replace(pool, nodes=tuple(nodes))


def _devices(
    now: datetime, holding: Sequence[Held]
) -> tuple[Mapping[str, list[DeviceView]], Mapping[str, list[DeviceKey]]]:
    """(devices, kind and model of those that nobody can have), both by node id."""
    of_node, of_device = _reserved(now)
    taken = {one.device_id for one in holding}
    devices: dict[str, list[DeviceView]] = defaultdict(list)
    unseen: dict[str, list[DeviceKey]] = defaultdict(list)
    columns = ("allocation", "away_since", "pk", "node_id", "kind", "index", "model_name", "slowdown")
    rows = [
        (held is not None, away_since is not None, *rest)
        for held, away_since, *rest in Device.objects.values_list(*columns)
    ]
    names = names_at_start(holding, {row[2]: declared_name(*row[6:]) for row in rows})
    for is_held, is_away, device_id, node_id, kind, index, *_ in rows:
        # One that is away is there for who holds it alone.
        if is_away and not is_held:
            unseen[node_id].append((kind, names[device_id]))
            continue
        devices[node_id].append(
            DeviceView(
                device_id=device_id,
                kind=kind,
                index=index,
                free=device_id not in taken,
                model_name=names[device_id],
                reserved=(*of_node[node_id], *of_device[device_id], *(_AWAY if is_away else ())),
            )
        )
    return devices, unseen


def _memory_held(holding: Sequence[Held]) -> Mapping[str, int]:
    """Bytes of host memory that were asked for, by node id."""
    untold = Job.objects.in_bulk({one.job_id for one in holding if one.option is None})
    memory, held = Counter[str](), defaultdict[str, list[Held]](list)
    for one in holding:
        held[one.job_id].append(one)
    for job_id, its in held.items():
        option = its[0].option
        if option is not None:
            wanted_bytes = option.memory_bytes
        else:
            wanted_bytes = wanted_memory_bytes(untold[job_id]) if job_id in untold else 0
        memory.update(memory_by_node(wanted_bytes, Counter(one.node_id for one in its)))
    return memory


def _reserved(now: datetime) -> tuple[Mapping[str, list[Reserved]], Mapping[str, list[Reserved]]]:
    """By node id, by device id."""
    of_node: dict[str, list[Reserved]] = defaultdict(list)
    of_device: dict[str, list[Reserved]] = defaultdict(list)
    for row in Reservation.objects.filter(cancelled_at=None, ends_at__gt=now):
        kept = _kept(row, now)
        if row.node_id:
            of_node[row.node_id].append(kept)
        elif row.device_id:
            of_device[row.device_id].append(kept)
    return of_node, of_device


def _kept(row: Reservation, now: datetime) -> Reserved:
    return Reserved(
        start_s=row.starts_at.timestamp(),
        # The expected end of what is open-ended moves, while a promise must not.
        end_s=math.inf if row.open_ended else row.plan_end.timestamp(),
        told_s=row.back_at(now).timestamp() if row.open_ended else math.inf,
        project=row.project_id or "",
        purpose=row.purpose,
    )

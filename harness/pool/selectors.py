"""Read the pool."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.utils import timezone

from harness.pool.caches import description_shown
from harness.pool.idle_power import devices_idle_watts
from harness.pool.models import Device, Node, NodeState
from harness.pool.reservations import reservation_list
from harness.pool.services import pool_setting_get
from scheduler.kinds import declared_name


class DeviceUse(StrEnum):
    """What a device does: always exactly one of these."""

    BUSY = "busy"
    """A job holds it, whatever its node does."""
    AWAY = "away"
    """Its node drains or is down, or does not see it."""
    RESERVED = "reserved"
    """Idle, and kept for something."""
    IDLE = "idle"
    """A job could get it now."""


@dataclass(frozen=True, kw_only=True)
class DeviceRow:
    """One device and who holds it."""

    id: str
    kind: str
    index: int
    model_name: str
    memory_bytes: int
    job_id: str | None
    job_name: str | None
    project_id: str | None
    """Of the job; pages show names only to members of it."""
    rank: int | None
    """Of the job, on this device; None where no rank of it computes there."""
    reserved: str = ""
    """What it is reserved for now."""
    slowdown: float = 1.0
    """Declared, not real: its ranks are made so many times as slow."""
    away_s: float | None = None
    """For how long its node has not seen it; None: it is there."""
    idle_w: float = 0.0
    """What it draws while nobody holds it."""
    idle_basis: str = ""
    """Where that figure comes from."""


@dataclass(frozen=True, kw_only=True)
class NodeRow:
    """One node and its devices."""

    name: str
    state: str
    drain_wanted: bool
    """`Node.drain_wanted`: also of a node that is down."""
    cpu_cores: int
    memory_bytes: int
    sandbox_level: int
    sandbox_reason: str
    description: dict[str, Any]
    heartbeat_age_s: float | None
    """Of one to come, from before the clock was set back: as far off as it is."""
    address: str
    near: str
    """`Node.near`."""
    check: dict[str, Any]
    """`Node.check_result`."""
    devices: tuple[DeviceRow, ...]

    @property
    def busy(self) -> int:
        """Devices held by jobs."""
        return self.count(DeviceUse.BUSY)

    def use_of(self, device: DeviceRow) -> DeviceUse:
        """What one of its devices does."""
        if device.job_id is not None:
            return DeviceUse.BUSY
        if self.state != NodeState.UP or device.away_s is not None:
            return DeviceUse.AWAY
        return DeviceUse.RESERVED if device.reserved else DeviceUse.IDLE

    def count(self, use: DeviceUse) -> int:
        """How many of its devices do that."""
        return sum(self.use_of(device) is use for device in self.devices)

    @property
    def said(self) -> str:
        """What it is found by, in small letters."""
        models = dict.fromkeys((str(self.description.get("cpu_model", "")), *(one.model_name for one in self.devices)))
        return " ".join((self.name, self.near, *models)).lower()


@dataclass(frozen=True, kw_only=True)
class KindRow:
    """All devices of one kind and model, and how many do what."""

    kind: str
    name: str
    """As offers name it: a declared slowdown is part of it."""
    busy: int
    idle: int
    reserved: int
    away: int

    @property
    def devices(self) -> int:
        """All of them."""
        return self.busy + self.idle + self.reserved + self.away


@dataclass(frozen=True, kw_only=True)
class PoolOverview:
    """The whole pool at one moment."""

    nodes: tuple[NodeRow, ...]

    def found(self, words: str, state: str) -> list[NodeRow]:
        """Nodes in this state (empty: any) whose name, rack or models have all the words."""
        wanted = words.lower().split()
        return [node for node in self.nodes if state in ("", node.state) and all(word in node.said for word in wanted)]

    @property
    def devices(self) -> int:
        """All devices: those that are busy, free, reserved or away."""
        return sum(len(node.devices) for node in self.nodes)

    @property
    def busy(self) -> int:
        """Devices held by jobs."""
        return self._count(DeviceUse.BUSY)

    @property
    def free(self) -> int:
        """Devices a job could get now: idle ones of nodes that are up, without those that are reserved."""
        return self._count(DeviceUse.IDLE)

    @property
    def reserved(self) -> int:
        """Devices that would be free, were they not reserved."""
        return self._count(DeviceUse.RESERVED)

    @property
    def away(self) -> int:
        """Idle devices of nodes that drain or are down, and those that their nodes do not see."""
        return self._count(DeviceUse.AWAY)

    @property
    def kinds(self) -> list[KindRow]:
        """By kind and model."""
        counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for node in self.nodes:
            for device in node.devices:
                name = declared_name(device.model_name, device.slowdown)
                counts[device.kind, name][node.use_of(device)] += 1
        return [
            KindRow(
                kind=kind,
                name=name,
                busy=counted[DeviceUse.BUSY],
                idle=counted[DeviceUse.IDLE],
                reserved=counted[DeviceUse.RESERVED],
                away=counted[DeviceUse.AWAY],
            )
            for (kind, name), counted in sorted(counts.items())
        ]

    def _count(self, use: DeviceUse) -> int:
        return sum(node.count(use) for node in self.nodes)


def pool_overview() -> PoolOverview:
    """Nodes, devices, holders, reservations and watts in six queries."""
    now = timezone.now()
    by_node = _devices_by_node(now)
    nodes = tuple(
        NodeRow(
            name=node.name,
            state=node.state,
            drain_wanted=node.drain_wanted,
            cpu_cores=node.cpu_cores,
            memory_bytes=node.memory_bytes,
            sandbox_level=node.sandbox_level,
            sandbox_reason=node.sandbox_reason,
            description=description_shown(node.description),
            heartbeat_age_s=abs((now - node.heartbeat_at).total_seconds()) if node.heartbeat_at else None,
            address=node.address,
            near=node.near,
            check=node.check_result,
            devices=tuple(by_node.get(node.pk, ())),
        )
        for node in Node.objects.order_by("name")
    )
    return PoolOverview(nodes=nodes)


def _devices_by_node(now: datetime) -> dict[str, list[DeviceRow]]:
    """Devices of each node by its key, with who holds them and what they are kept for."""
    by_node: dict[str, list[DeviceRow]] = {}
    kept = {row.device_id or row.node_id: row.purpose for row in reservation_list().filter(starts_at__lte=now)}
    held_now = Device.objects.select_related("allocation__job").prefetch_related("allocation__attempt")
    devices = list(held_now.order_by("kind", "index"))
    idle = devices_idle_watts(devices, pool_setting_get().power_table)
    for device in devices:
        held = getattr(device, "allocation", None)
        by_node.setdefault(device.node_id, []).append(
            DeviceRow(
                id=device.pk,
                kind=device.kind,
                index=device.index,
                model_name=device.model_name,
                memory_bytes=device.memory_bytes,
                job_id=held.job_id if held else None,
                job_name=held.job.name if held else None,
                project_id=held.job.project_id if held else None,
                rank=held.rank if held and held.drives_rank else None,
                reserved=kept.get(device.pk, "") or kept.get(device.node_id, ""),
                slowdown=device.slowdown,
                away_s=(now - device.away_since).total_seconds() if device.away_since else None,
                idle_w=idle[device.pk].watts,
                idle_basis=str(idle[device.pk].basis),
            )
        )
    return by_node

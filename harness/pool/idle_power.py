"""What devices draw while nobody holds them, as the meters of their nodes tell it: which readings count.

The figure of a device is the median of its newest ones. A core has its even share of what the host's processor packages
draw: what of that is its own no meter tells.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from django.db.models import Q

from harness.pool.models import Device, DeviceKind, IdlePower, Node, Reservation
from harness.pool.power import IdleWatts, idle_watts
from scheduler.estimation.power_table import WATTS_MAX

QUIET_LOAD = 0.05
"""At most so busy was a host, or a GPU, whose reading counts: others may use it, too."""
SETTLES = timedelta(minutes=5)
"""So long after it was held last a device cools down, and its clocks come to rest."""
READINGS_LEAST = 5
"""Fewer tell nothing yet."""
READINGS_KEPT = 60
"""An agent tells one a minute."""
READINGS_APART = timedelta(seconds=30)
"""A report that comes twice counts once."""


@dataclass(frozen=True, kw_only=True)
class IdleReading:
    """Of one device of a node."""

    kind: DeviceKind
    index: int
    """Of a GPU; the first core stands for all of them."""
    watts: float


def idle_readings(told: Any) -> list[IdleReading]:
    """Readings of a quiet host, and of its quiet GPUs, in a report (`worker.idle_power`); older agents tell none.

    What makes no sense is left out: a meter that is broken must not keep a node from being up.
    """
    told = told if isinstance(told, Mapping) else {}
    found = []
    packages_w, cores = _watts(told.get("packages_w")), _number(told.get("cores"))
    if packages_w is not None and cores is not None and cores >= 1 and _is_quiet(told.get("load")):
        found.append(IdleReading(kind=DeviceKind.CPU, index=0, watts=packages_w / cores))
    gpus = told.get("gpus")
    for gpu in gpus if isinstance(gpus, Sequence) else ():
        index, watts = (gpu.get("index"), _watts(gpu.get("power_w"))) if isinstance(gpu, Mapping) else (None, None)
        if isinstance(index, int) and watts is not None and _is_quiet(gpu.get("load")):
            found.append(IdleReading(kind=DeviceKind.CUDA, index=index, watts=watts))
    return found


def _number(value: Any) -> float | None:
    is_one = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_one else None


def _watts(value: Any) -> float | None:
    watts = _number(value)
    return watts if watts is not None and 0 < watts <= WATTS_MAX else None


def _is_quiet(load: Any) -> bool:
    share = _number(load)
    return share is not None and 0 <= share <= QUIET_LOAD


def idle_power_keep(node: Node, readings: Sequence[IdleReading], now: datetime) -> None:
    """Take readings in, of devices that nobody holds and that have come to rest. Call it with the node locked."""
    if not readings:
        return
    worked = _worked(node, now)
    there = {(device.kind, device.index): device for device in node.devices.filter(away_since=None)}
    for reading in readings:
        device = there.get((reading.kind, reading.index))
        # Who works on a GPU works on the host as well.
        if device is not None and not (worked if reading.kind == DeviceKind.CPU else device.pk in worked):
            _keep(node, device, reading.watts, now)


def _worked(node: Node, now: datetime) -> set[str]:
    """Devices of the node that are held, or kept for no job (to be measured, or for people), or were a while ago."""
    since = now - SETTLES
    kept = Reservation.objects.filter(project=None, starts_at__lte=now, ends_at__gt=since)
    kept = kept.filter(Q(cancelled_at=None) | Q(cancelled_at__gt=since))
    is_held = Q(allocation__isnull=False) | Q(uses__ended_at__gt=since) | Q(reservations__in=kept)
    if kept.filter(node=node).exists():
        is_held = Q()
    return set(node.devices.filter(is_held).values_list("pk", flat=True))


def _keep(node: Node, device: Device, watts: float, now: datetime) -> None:
    gpu = device if device.kind == DeviceKind.CUDA else None
    row = IdlePower.objects.filter(node=node, device=gpu).first() or IdlePower(node=node, device=gpu)
    if row.read_at and timedelta(0) <= now - row.read_at < READINGS_APART:
        return
    before = row.readings_w if row.model_name == device.model_name else []
    row.model_name, row.read_at = device.model_name, now
    row.readings_w = [*before, round(watts, 3)][-READINGS_KEPT:]
    row.watts = median(row.readings_w) if len(row.readings_w) >= READINGS_LEAST else None
    row.save()


class IdleMeasured:
    """The figures that there are."""

    def __init__(self) -> None:
        self._own_w: dict[tuple[str, str | None, str], float] = {}
        self._like: dict[tuple[str, str], list[float]] = defaultdict(list)
        rows = IdlePower.objects.values_list("node_id", "device_id", "model_name", "watts")
        for node_id, device_id, model_name, watts in rows:
            if watts is not None:
                kind = DeviceKind.CPU if device_id is None else DeviceKind.CUDA
                self._own_w[node_id, device_id, model_name] = watts
                self._like[kind.value, model_name].append(watts)

    def own_w(self, device: Device) -> float | None:
        """Of this device."""
        device_id = device.pk if device.kind == DeviceKind.CUDA else None
        return self._own_w.get((device.node_id, device_id, device.model_name))

    def like_w(self, kind: str, model_name: str) -> float | None:
        """Of devices of a model: the median of them, or of the nodes that have such cores."""
        found = self._like.get((kind, model_name))
        return median(found) if found else None


def devices_idle_watts(devices: Iterable[Device], table: Mapping[str, Any]) -> dict[str, IdleWatts]:
    """Of each device, by its key. `table`: the admin's."""
    measured = IdleMeasured()
    alike: dict[tuple[str, str], IdleWatts] = {}
    """Of those that were not read themselves."""
    found = {}
    for device in devices:
        key, own_w = (device.kind, device.model_name), measured.own_w(device)
        if own_w is not None:
            found[device.pk] = idle_watts(*key, table, measured_w=own_w)
            continue
        if key not in alike:
            alike[key] = idle_watts(*key, table, like_w=measured.like_w(*key))
        found[device.pk] = alike[key]
    return found

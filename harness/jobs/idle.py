"""What devices draw while nobody holds them, which no job is charged for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.jobs.uses import Floats, Uses
from harness.pool.models import Device
from harness.pool.power import device_power
from harness.pool.presence import Presence
from harness.pool.services import pool_setting_get
from scheduler.estimation.values import Basis

IDLE_BASIS = str(Basis.ASSUMED)
"""Watts of a device that nothing runs on come from a table: no meter is read then."""


@dataclass(frozen=True, kw_only=True)
class DeviceIdle:
    """One device of today's pool in each bucket of a window."""

    device: Device
    there_s: Floats
    """How long its node was up and saw it."""
    worked_s: Floats
    """How long a job or a measurement held it."""
    idle_w: float

    @property
    def idle_s(self) -> Floats:
        """The rest; who worked was there, whatever is known of its node."""
        return np.clip(self.there_s - self.worked_s, 0.0, None)

    @property
    def idle_j(self) -> Floats:
        """What it drew in that time."""
        return np.multiply(self.idle_s, self.idle_w)


def devices_idle(uses: Uses) -> list[DeviceIdle]:
    """Each device of nodes that are in the pool today; of those that have left nobody knows when they were there."""
    window, table = uses.window, pool_setting_get().power_table
    devices = list(Device.objects.select_related("node").order_by("node__name", "kind", "index", "pk"))
    worked_s = _worked_s(uses, devices)
    presence = Presence(window.since, window.until, window.buckets)
    models = {(device.kind, device.model_name) for device in devices}
    idle_w = {(kind, name): device_power(kind, name, table).idle_w for kind, name in models}
    return [
        DeviceIdle(
            device=device,
            there_s=presence.seconds(device),
            worked_s=worked,
            idle_w=idle_w[device.kind, device.model_name],
        )
        for device, worked in zip(devices, worked_s, strict=True)
    ]


def _worked_s(uses: Uses, devices: Sequence[Device]) -> Floats:
    """(devices, buckets)."""
    count, buckets = len(devices), uses.window.buckets
    number = {device.pk: at for at, device in enumerate(devices)}
    # Those that are no more come last.
    of_value = np.array([number.get(pk, count) for pk in uses.devices.values], dtype=int)
    cells = of_value[uses.devices.of_piece] * buckets + uses.bucket
    worked_s = np.bincount(cells, uses.seconds, (count + 1) * buckets).astype(float)
    return worked_s.reshape(count + 1, buckets)[:count]

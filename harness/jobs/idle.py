"""What devices draw while nobody holds them, which no job is charged for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.jobs.uses import Floats, Uses
from harness.pool.idle_power import devices_idle_watts
from harness.pool.models import Device
from harness.pool.presence import Presence
from harness.pool.services import pool_setting_get


@dataclass(frozen=True, kw_only=True)
class DeviceIdle:
    """One device of today's pool in each bucket of a window."""

    device: Device
    there_s: Floats
    """How long its node was up and saw it."""
    worked_s: Floats
    """How long a job or a measurement held it."""
    idle_w: float
    basis: str
    """Of these watts, which are today's for the whole of the window."""

    @property
    def idle_s(self) -> Floats:
        """The rest; who worked was there, whatever is known of its node."""
        return np.clip(self.there_s - self.worked_s, 0.0, None)

    @property
    def idle_j(self) -> Floats:
        """What it drew in that time."""
        return np.multiply(self.idle_s, self.idle_w)


def idle_joules(idle: Sequence[DeviceIdle]) -> dict[str, Floats]:
    """What devices drew idle, by what it rests on: joules of each bucket."""
    bases = sorted({one.basis for one in idle})
    return {basis: np.sum([one.idle_j for one in idle if one.basis == basis], axis=0) for basis in bases}


def devices_idle(uses: Uses) -> list[DeviceIdle]:
    """Each device of nodes that are in the pool today; of those that have left nobody knows when they were there."""
    window = uses.window
    devices = list(Device.objects.select_related("node").order_by("node__name", "kind", "index", "pk"))
    worked_s = _worked_s(uses, devices)
    presence = Presence(window.since, window.until, window.buckets)
    idle = devices_idle_watts(devices, pool_setting_get().power_table)
    return [
        DeviceIdle(
            device=device,
            there_s=presence.seconds(device),
            worked_s=worked,
            idle_w=idle[device.pk].watts,
            basis=str(idle[device.pk].basis),
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

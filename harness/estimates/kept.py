"""Devices that other projects have for themselves: what their jobs are expected to hold of them holds nobody else off.

The scheduler gives a project's jobs what is kept for it before anything else, so that is where they are expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from harness.jobs.control.expectations import told_again_s
from harness.pool.models import Reservation
from scheduler.job_view import DeviceKey
from scheduler.placing.openings import Holding


@dataclass(kw_only=True)
class Kept:
    """One device while it is kept for a project."""

    project_id: str
    key: DeviceKey
    starts_s: float
    ends_s: float
    is_offered: bool
    """To others, before and after that."""
    free_s: float
    """From then on none of the project's jobs is expected there."""

    def takes(self, wanted: Holding, now_s: float) -> bool:
        """Whether a job of the project may be expected to start there."""
        if not self.starts_s <= max(wanted.start_s, now_s) < self.ends_s:
            return False
        # Expectations are told anew only where they move by more.
        return self.free_s <= wanted.start_s + told_again_s(wanted.finish_s - now_s)


def kept_of(
    rows: Iterable[tuple[Reservation, Iterable[str]]],
    keys: Mapping[str, DeviceKey],
    usable: Mapping[str, DeviceKey],
    free_s: Mapping[str, float],
) -> list[Kept]:
    """By reservations of other projects, each with its devices.

    `keys`: devices that take work, by id; `usable`: those of them that are offered now; `free_s`: unix time at which a
    device is given back, of those that are held.
    """
    return [
        Kept(
            project_id=row.project_id, key=keys[pk], starts_s=row.starts_at.timestamp(),
            ends_s=row.ends_at.timestamp(), is_offered=pk in usable, free_s=free_s.get(pk, 0.0),
        )
        for row, devices in rows if row.project_id is not None
        for pk in devices if pk in keys
    ]  # fmt: skip


def held_of_others(
    kept: Iterable[Kept], project_id: str, wanted: Holding, *, is_there: Callable[[DeviceKey], bool], now_s: float
) -> list[Holding]:
    """What a waiting job is expected to hold beside the devices that are kept for its project.

    Call it in the order in which jobs are expected to start: what one holds of `kept` no other does meanwhile.
    `is_there`: whether devices of this kind are what it is expected on.
    """
    own = (device for device in kept if device.project_id == project_id and is_there(device.key))
    taken = [device for device in own if device.takes(wanted, now_s)][: wanted.count]
    for device in taken:
        device.free_s = wanted.finish_s
    over = [
        replace(wanted, start_s=device.ends_s, count=1)
        for device in taken if device.is_offered and device.ends_s < wanted.finish_s
    ]  # fmt: skip
    left = wanted.count - len(taken)
    return [*([replace(wanted, count=left)] if left else []), *over]

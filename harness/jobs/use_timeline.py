"""Read what each device, job, person or project used over time: devices at work, kWh, CO2."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from harness.accounts.models import User
from harness.jobs.idle import DeviceIdle, devices_idle, idle_joules
from harness.jobs.use_rows import (
    IDLE_COLUMNS,
    Grouped,
    GroupKey,
    UseRow,
    idle_cells,
    idle_name,
    use_grouped,
)
from harness.jobs.uses import Uses, uses_read
from harness.jobs.windows import KWH_J, Window, basis_of

USE_POINT_COLUMNS = ("from", "name", "job", "devices", "device hours", "kWh", "CO2 g", "basis")
OTHERS = "all others"


@dataclass(kw_only=True, slots=True)
class UsePoint(UseRow):
    """The same over one stretch of time."""

    starts_at: datetime
    bucket_s: float

    @property
    def devices(self) -> float:
        """Devices at work, on average; of one device its utilisation, 0-1."""
        return self.device_s / self.bucket_s


def use_timeline(*, user: User, window: Window, by: str) -> list[UsePoint]:
    """Oldest first, then by name; nothing where nothing was used. Hidden is what `use_rows` hides. Raises `Invalid`."""
    uses = uses_read(window, by)
    grouped = use_grouped(user, uses)
    count = len(grouped.keys)
    cells, of_piece = np.unique(uses.bucket * count + grouped.of_piece, return_inverse=True)
    sums = uses.sums(of_piece, len(cells))
    points = {}
    columns = zip(cells.tolist(), sums.seconds.tolist(), sums.energy_j, sums.basis, strict=True)
    for cell, device_s, energy_j, basis in columns:
        number, group = divmod(cell, count)
        point = _point(window, number, grouped.names[group], grouped.job_ids[group])
        point.device_s, point.energy_j, point.basis = device_s, energy_j, basis
        points[number, grouped.keys[group]] = point
    if by == "device":
        _idle_add(points, window, devices_idle(uses))
    return sorted(points.values(), key=lambda point: (point.starts_at, point.name, point.job_id))


def _point(window: Window, number: int, name: str, job_id: str = "") -> UsePoint:
    return UsePoint(starts_at=window.starts_at(number), bucket_s=window.bucket_s, name=name, job_id=job_id)


def _idle_add(points: dict[tuple[int, str], UsePoint], window: Window, idle: Sequence[DeviceIdle]) -> None:
    """To the points of devices, which have their names for keys, and to stretches in which they did nothing."""
    for one in idle:
        name, idle_s = idle_name(one), one.idle_s
        for number in np.flatnonzero(idle_s > 0).tolist():
            point = points.setdefault((number, name), _point(window, number, name))
            point.idle_add(float(idle_s[number]), float(idle_s[number]) * one.idle_w, one.basis)


@dataclass(frozen=True, kw_only=True)
class UseSeries:
    """One line of a picture: a value for each bucket of the window."""

    name: str
    devices: Sequence[float]
    kwh: Sequence[float]
    basis: str
    """Where most of the energy's figure comes from."""


def use_series(grouped: Grouped, most: int) -> list[UseSeries]:
    """Those with most energy, each of its own name, and all others as one; `most` of them in all."""
    ranked = grouped.ranked
    own = ranked if len(ranked) <= most else ranked[: most - 1]
    names = _labels([grouped.key(at) for at in own]) + ([OTHERS] if len(own) < len(ranked) else [])
    line = np.full(len(grouped.keys), len(own))
    line[own] = np.arange(len(own))
    return [_series(name, grouped.uses, line[grouped.of_piece] == at) for at, name in enumerate(names)]


def idle_series(idle: Sequence[DeviceIdle], window: Window, most: int) -> list[UseSeries]:
    """The same of what devices drew idle, and how much of the time they did."""
    stood = [one for one in idle if one.idle_s.sum() > 0]
    ranked = sorted(stood, key=lambda one: (-float(one.idle_j.sum()), idle_name(one)))
    own = ranked if len(ranked) <= most else ranked[: most - 1]
    lines = [(idle_name(one), [one]) for one in own]
    if len(own) < len(ranked):
        lines.append((OTHERS, ranked[len(own) :]))
    return [
        UseSeries(
            name=name,
            devices=(np.sum([one.idle_s for one in some], axis=0) / window.bucket_s).tolist(),
            kwh=(np.sum([one.idle_j for one in some], axis=0) / KWH_J).tolist(),
            basis=basis_of({basis: float(joules.sum()) for basis, joules in idle_joules(some).items()}),
        )
        for name, some in lines
    ]


def _labels(keys: Sequence[GroupKey]) -> list[str]:
    """Names, with the job's id where two are of one name."""
    alike = Counter(key.name for key in keys)
    return [f"{key.name} ({key.job_id})" if alike[key.name] > 1 and key.job_id else key.name for key in keys]


def _series(name: str, uses: Uses, mine: NDArray[np.bool_]) -> UseSeries:
    buckets = uses.window.buckets
    sums = uses.sums(np.where(mine, uses.bucket, buckets), buckets + 1)
    in_all = uses.sums((~mine).astype(int), 2)
    return UseSeries(
        name=name,
        devices=(sums.seconds[:buckets] / uses.window.bucket_s).tolist(),
        kwh=[joules / KWH_J for joules in sums.energy_j[:buckets]],
        basis=in_all.basis[0],
    )


def use_point_columns(by: str) -> tuple[str, ...]:
    """Names of the cells of a point."""
    return (*USE_POINT_COLUMNS, *IDLE_COLUMNS) if by == "device" else USE_POINT_COLUMNS


def use_point_cells(point: UsePoint, by: str, co2_g_per_kwh: float) -> tuple[str | float, ...]:
    """A row of `use_point_columns`."""
    at = point.starts_at.isoformat(timespec="seconds")
    used = (point.devices, point.device_hours, point.kwh, point.kwh * co2_g_per_kwh, point.basis)
    cells = (at, point.name, point.job_id, *used)
    return (*cells, *idle_cells(point, co2_g_per_kwh)) if by == "device" else cells

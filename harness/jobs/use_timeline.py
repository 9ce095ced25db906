"""Read what each device, job, person or project used over time: devices at work, kWh, CO2."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from harness.accounts.models import User
from harness.jobs.models import DeviceUse
from harness.jobs.timelines import Window, basis_of, spread
from harness.jobs.use_rows import UseRow, use_grouped

USE_POINT_COLUMNS = ("from", "name", "job", "devices", "device hours", "kWh", "CO2 g", "basis")
OTHERS = "all others"


@dataclass(kw_only=True)
class UsePoint(UseRow):
    """The same over one stretch of time."""

    starts_at: datetime
    bucket_s: float

    @property
    def devices(self) -> float:
        """Devices at work, on average; of one device its utilisation, 0-1."""
        return self.device_s / self.bucket_s


def use_timeline(*, user: User, window: Window, by: str, uses: Sequence[DeviceUse] | None = None) -> list[UsePoint]:
    """Oldest first, then by name; nothing where nothing was used. Hidden is what `use_rows` hides. Raises `Invalid`.

    `uses`: of the window, where they were read before.
    """
    points: dict[tuple[int, str], UsePoint] = {}
    for use, key, name, job_id in use_grouped(user=user, window=window, by=by, uses=uses):
        for number, seconds, joules in spread(use, window):
            point = points.get((number, key))
            if point is None:
                starts_at = window.since + timedelta(seconds=number * window.bucket_s)
                point = UsePoint(starts_at=starts_at, name=name, job_id=job_id, bucket_s=window.bucket_s)
                points[number, key] = point
            point.device_s += seconds
            point.energy_j += joules
            point.bases[use.energy_basis] += joules
    return sorted(points.values(), key=lambda point: (point.starts_at, point.name, point.job_id))


@dataclass(frozen=True, kw_only=True)
class UseSeries:
    """One line of a picture: a value for each bucket of the window."""

    name: str
    devices: Sequence[float]
    kwh: Sequence[float]
    basis: str
    """Where most of the energy's figure comes from."""


def use_series(points: Sequence[UsePoint], window: Window, most: int) -> list[UseSeries]:
    """Those with most energy, each of its own name, and all others as one; `most` of them in all."""
    energy_j: dict[tuple[str, str], float] = defaultdict(float)
    for point in points:
        energy_j[point.name, point.job_id] += point.energy_j
    ranked = sorted(energy_j, key=lambda key: (-energy_j[key], key))
    own = ranked if len(ranked) <= most else ranked[: most - 1]
    alike = Counter(name for name, _ in own)
    label = {key: f"{key[0]} ({key[1]})" if alike[key[0]] > 1 and key[1] else key[0] for key in own}
    devices: dict[str, list[float]] = defaultdict(lambda: [0.0] * window.buckets)
    kwh: dict[str, list[float]] = defaultdict(lambda: [0.0] * window.buckets)
    bases: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for point in points:
        name = label.get((point.name, point.job_id), OTHERS)
        for basis, joules in point.bases.items():
            bases[name][basis] += joules
        number = round((point.starts_at - window.since).total_seconds() / window.bucket_s)
        devices[name][number] += point.devices
        kwh[name][number] += point.kwh
    names = [label[key] for key in own] + ([OTHERS] if len(own) < len(ranked) else [])
    return [UseSeries(name=name, devices=devices[name], kwh=kwh[name], basis=basis_of(bases[name])) for name in names]


def use_point_cells(point: UsePoint, co2_g_per_kwh: float) -> tuple[str | float, ...]:
    """A row of `USE_POINT_COLUMNS`."""
    at = point.starts_at.isoformat(timespec="seconds")
    used = (point.devices, point.device_hours, point.kwh, point.kwh * co2_g_per_kwh, point.basis)
    return (at, point.name, point.job_id, *used)

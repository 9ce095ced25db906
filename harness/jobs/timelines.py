"""Read what devices did: utilisation and power of each kind over time, and what one job took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from django.utils import timezone
from numpy.typing import NDArray

from harness.jobs.control.usage import power_now_w
from harness.jobs.idle import DeviceIdle, devices_idle, idle_joules
from harness.jobs.models import Allocation, DeviceUse, Job
from harness.jobs.uses import Numbered, Uses, allocations_held, powers_of, uses_going, uses_read
from harness.jobs.windows import KWH_J, Window, bases_sum, basis_of

BUCKET_COLUMNS = (
    "from", "kind", "devices", "busy devices", "utilisation", "working W", "idle W", "CO2 g", "basis",
    "working basis", "idle basis",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class JobEnergy:
    """What one job took."""

    energy_j: float
    power_w: float
    """Of the devices it holds, by the last samples; 0 while it holds none."""
    basis: str
    """Where most of the energy's figure comes from; empty where it never held a device."""


@dataclass(frozen=True, kw_only=True)
class Bucket:
    """The pool over one stretch of time, one kind of device."""

    starts_at: datetime
    device_kind: str
    devices: int
    """That were there at some time of it."""
    present: float
    """The same on average over it."""
    busy: float
    """Devices that worked for jobs, on average."""
    busy_w: float
    """Mean power of those."""
    idle_w: float
    """Mean power of the others."""
    busy_bases: Mapping[str, float] = field(default_factory=dict)
    """Joules of those that worked, by basis."""
    idle_bases: Mapping[str, float] = field(default_factory=dict)
    """Joules of the others, by basis."""

    @property
    def bases(self) -> dict[str, float]:
        """Joules by basis, of the idle ones, too."""
        return bases_sum([self.busy_bases, self.idle_bases])

    @property
    def basis(self) -> str:
        """Where most of the power's figure comes from."""
        return basis_of(self.bases)

    @property
    def busy_basis(self) -> str:
        """Where most of the figure of those that worked comes from."""
        return basis_of(self.busy_bases)

    @property
    def idle_basis(self) -> str:
        """Where most of the figure of the others comes from; empty where there were none."""
        return basis_of(self.idle_bases)

    @property
    def utilisation(self) -> float:
        """Share of the devices that worked while they were there, 0-1."""
        return self.busy / self.present if self.busy else 0.0


def job_energy(job: Job) -> JobEnergy:
    """What a job's devices took so far, over all its attempts, and what they take now."""
    held = allocations_held(Allocation.objects.filter(job=job))
    powers = powers_of(held)
    uses = [*DeviceUse.objects.filter(job=job), *uses_going(held, timezone.now(), powers)]
    bases: dict[str, float] = defaultdict(float)
    for use in uses:
        bases[use.energy_basis] += use.energy_j
    return JobEnergy(
        energy_j=sum(use.energy_j for use in uses), power_w=power_now_w(held, powers), basis=basis_of(bases)
    )


def pool_timeline(window: Window, uses: Uses | None = None, idle: Sequence[DeviceIdle] | None = None) -> list[Bucket]:
    """Utilisation and power of each kind of device, oldest bucket first; of nodes that are in the pool today.

    `uses`, `idle`: of the window, where they were read before.
    """
    uses = uses or uses_read(window)
    idle = devices_idle(uses) if idle is None else idle
    kinds = sorted({*uses.kinds.values, *(one.device.kind for one in idle)})
    by_kind = {kind: _kind_buckets(kind, uses, [one for one in idle if one.device.kind == kind]) for kind in kinds}
    return [by_kind[kind][number] for number in range(window.buckets) for kind in kinds]


def _kind_buckets(kind: str, uses: Uses, idle: Sequence[DeviceIdle]) -> list[Bucket]:
    """Each bucket, of one kind of device."""
    window, buckets = uses.window, uses.window.buckets
    mine, nobodys = _is(uses.kinds, kind), _is(uses.devices, None)
    sums = uses.sums(np.where(mine, uses.bucket, buckets), buckets + 1)
    # A node may have left the pool since, or have come back: who worked was there, at least for so long.
    gone = mine & nobodys
    gone_s = np.bincount(uses.bucket[gone], uses.seconds[gone], buckets)
    none = np.zeros(buckets)
    devices = sum((np.maximum(one.there_s, one.worked_s) > 0 for one in idle), (gone_s > 0).astype(int))
    present_s = sum((np.maximum(one.there_s, one.worked_s) for one in idle), gone_s)
    by_basis = idle_joules(idle)
    idle_j = sum(by_basis.values(), none)
    return [
        Bucket(
            starts_at=window.starts_at(number),
            device_kind=kind,
            devices=int(devices[number]),
            present=float(max(sums.seconds[number], present_s[number])) / window.bucket_s,
            busy=float(sums.seconds[number]) / window.bucket_s,
            busy_w=float(sums.joules[number].sum()) / window.bucket_s,
            idle_w=float(idle_j[number]) / window.bucket_s,
            busy_bases=sums.bases(number),
            idle_bases={basis: float(joules[number]) for basis, joules in by_basis.items()},
        )
        for number in range(buckets)
    ]


def _is(column: Numbered, value: str | None) -> NDArray[np.bool_]:
    """Whether a piece has it."""
    found: NDArray[np.bool_] = np.array([one == value for one in column.values], dtype=bool)[column.of_piece]
    return found


def bucket_cells(bucket: Bucket, bucket_s: float, co2_g_per_kwh: float) -> tuple[str | float, ...]:
    """A row of `BUCKET_COLUMNS`."""
    at = bucket.starts_at.isoformat(timespec="seconds")
    worked = (bucket.devices, bucket.busy, bucket.utilisation)
    co2_g = (bucket.busy_w + bucket.idle_w) * bucket_s / KWH_J * co2_g_per_kwh
    bases = (bucket.basis, bucket.busy_basis, bucket.idle_basis)
    return (at, bucket.device_kind, *worked, bucket.busy_w, bucket.idle_w, co2_g, *bases)

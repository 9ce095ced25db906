"""Read what devices did: utilisation and power of each kind over time, and what one job took."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from harness.calibration.known import Key, powers_known
from harness.errors import Invalid
from harness.jobs.control.usage import attempt_samples, device_key, power_now_w, use_of
from harness.jobs.models import Allocation, DeviceUse, Job
from harness.pool.models import Device
from harness.pool.power import device_power
from harness.pool.presence import Presence
from harness.pool.services import pool_setting_get
from scheduler.estimation.device_model import PowerModel
from scheduler.estimation.values import Basis

SPANS = {"day": timedelta(days=1), "week": timedelta(days=7), "month": timedelta(days=30), "year": timedelta(days=365)}
BUCKETS = {"day": 48, "week": 84, "month": 60, "year": 73}
"""Points of a timeline: half an hour, two hours, half a day, five days each."""
KWH_J = 3.6e6
BUCKET_COLUMNS = ("from", "kind", "devices", "busy devices", "utilisation", "working W", "idle W", "CO2 g", "basis")


@dataclass(frozen=True, kw_only=True)
class Window:
    """The time that is looked at, `[since, until)`."""

    since: datetime
    until: datetime
    buckets: int

    @property
    def bucket_s(self) -> float:
        """Length of one bucket."""
        return (self.until - self.since).total_seconds() / self.buckets


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
    """Mean power of the others, by the power table."""
    bases: Mapping[str, float] = field(default_factory=dict)
    """Joules by basis, of the idle ones, too."""

    @property
    def basis(self) -> str:
        """Where most of the power's figure comes from."""
        return basis_of(self.bases)

    @property
    def utilisation(self) -> float:
        """Share of the devices that worked while they were there, 0-1."""
        return self.busy / self.present if self.busy else 0.0


def basis_of(bases: Mapping[str, float]) -> str:
    """The basis with most joules; empty where there are none."""
    return max(bases, key=lambda name: bases[name]) if any(bases.values()) else ""


def window_of(span: str, now: datetime | None = None) -> Window:
    """The newest day, week, month or year. Raises `Invalid`."""
    if span not in SPANS:
        raise Invalid(f"There is no span {span!r}.", field="span", hint=f"Use one of: {', '.join(SPANS)}.")
    until = now or timezone.now()
    return Window(since=until - SPANS[span], until=until, buckets=BUCKETS[span])


def uses_of(window: Window) -> list[DeviceUse]:
    """Ended uses that reach into the window, and those that go on, as far as they are."""
    ended = DeviceUse.objects.filter(ended_at__gt=window.since, started_at__lt=window.until)
    held = _held(Allocation.objects.all())
    return list(ended) + _going(held, window.until, _powers(held))


def _held(allocations: QuerySet[Allocation]) -> list[Allocation]:
    return list(allocations.select_related("device__node", "job__project", "job__owner", "attempt").order_by("pk"))


def _going(going: Sequence[Allocation], until: datetime, powers: Mapping[Key, PowerModel]) -> list[DeviceUse]:
    """Uses that have not ended, as far as they are; not saved."""
    held = Counter((allocation.attempt_id, allocation.device.node_id) for allocation in going)
    attempts = {allocation.attempt_id: allocation.attempt for allocation in going}
    samples = {pk: attempt_samples(attempt) for pk, attempt in attempts.items()}
    return [
        use_of(item, until, samples[item.attempt_id], held[item.attempt_id, item.device.node_id], powers)
        for item in going
    ]


def _powers(going: Sequence[Allocation]) -> dict[Key, PowerModel]:
    return powers_known({device_key(allocation.device) for allocation in going})


def job_energy(job: Job) -> JobEnergy:
    """What a job's devices took so far, over all its attempts, and what they take now."""
    held = _held(Allocation.objects.filter(job=job))
    powers = _powers(held)
    uses = [*DeviceUse.objects.filter(job=job), *_going(held, timezone.now(), powers)]
    bases: dict[str, float] = defaultdict(float)
    for use in uses:
        bases[use.energy_basis] += use.energy_j
    return JobEnergy(
        energy_j=sum(use.energy_j for use in uses), power_w=power_now_w(held, powers), basis=basis_of(bases)
    )


def use_share(use: DeviceUse, since: datetime, until: datetime) -> tuple[float, float]:
    """(seconds, joules) of a use that lie between two moments."""
    whole_s = (use.ended_at - use.started_at).total_seconds()
    inside_s = (min(use.ended_at, until) - max(use.started_at, since)).total_seconds()
    if whole_s <= 0 or inside_s <= 0:
        return 0.0, 0.0
    return inside_s, use.energy_j * inside_s / whole_s


def spread(use: DeviceUse, window: Window) -> Iterator[tuple[int, float, float]]:
    """(bucket, seconds, joules) of each stretch that a use reaches into."""
    first_s, last_s = ((at - window.since).total_seconds() for at in (use.started_at, use.ended_at))
    if first_s >= last_s:
        return
    power_w, bucket_s = use.energy_j / (last_s - first_s), window.bucket_s
    for number in range(max(0, int(first_s / bucket_s)), min(window.buckets, int(last_s / bucket_s) + 1)):
        inside_s = min(last_s, (number + 1) * bucket_s) - max(first_s, number * bucket_s)
        if inside_s > 0:
            yield number, inside_s, power_w * inside_s


@dataclass
class _Worked:
    """What devices of one kind did for jobs in one bucket."""

    device_s: dict[str | None, float] = field(default_factory=lambda: defaultdict(float))
    """By the device's key."""
    bases: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Joules by basis."""


def pool_timeline(window: Window, uses: Sequence[DeviceUse] | None = None) -> list[Bucket]:
    """Utilisation and power of each kind of device, oldest bucket first; of nodes that are in the pool today.

    `uses`: of the window, where they were read before.
    """
    table = pool_setting_get().power_table
    worked: dict[tuple[int, str], _Worked] = defaultdict(_Worked)
    for use in uses_of(window) if uses is None else uses:
        for number, seconds, joules in spread(use, window):
            found = worked[number, use.device_kind]
            found.device_s[use.device_id] += seconds
            found.bases[use.energy_basis] += joules
    devices: dict[str, list[Device]] = defaultdict(list)
    for device in Device.objects.select_related("node"):
        devices[device.kind].append(device)
    kinds = sorted({*devices, *(kind for _, kind in worked)})
    presence = Presence(window.since, window.until)
    models = {(kind, device.model_name) for kind in kinds for device in devices[kind]}
    idle_w = {(kind, name): device_power(kind, name, table).idle_w for kind, name in models}
    return [
        _bucket(window, number, kind, devices[kind], worked[number, kind], idle_w, presence)
        for number in range(window.buckets)
        for kind in kinds
    ]


def _bucket(
    window: Window,
    number: int,
    kind: str,
    devices: Sequence[Device],
    found: _Worked,
    idle_w: Mapping[tuple[str, str], float],
    presence: Presence,
) -> Bucket:
    since = window.since + timedelta(seconds=number * window.bucket_s)
    until = since + timedelta(seconds=window.bucket_s)
    worked, bases = found.device_s, found.bases
    busy_j = sum(bases.values())
    busy = sum(worked.values()) / window.bucket_s
    idle_j = present_s = 0.0
    there = {device.pk: seconds for device in devices if (seconds := presence.seconds(device, since, until)) > 0}
    for device in devices:
        # Who worked was there, whatever is known of its node.
        worked_s = worked.get(device.pk, 0.0)
        seconds = max(there.get(device.pk, 0.0), worked_s)
        present_s += seconds
        idle_j += idle_w[kind, device.model_name] * (seconds - worked_s)
    bases[str(Basis.ASSUMED)] += idle_j
    return Bucket(
        starts_at=since,
        device_kind=kind,
        # A node may have left the pool and come back since: who worked was there.
        devices=len({*there, *worked}),
        present=max(busy, present_s / window.bucket_s),
        busy=busy,
        busy_w=busy_j / window.bucket_s,
        idle_w=idle_j / window.bucket_s,
        bases=bases,
    )


def bucket_cells(bucket: Bucket, bucket_s: float, co2_g_per_kwh: float) -> tuple[str | float, ...]:
    """A row of `BUCKET_COLUMNS`."""
    at = bucket.starts_at.isoformat(timespec="seconds")
    worked = (bucket.devices, bucket.busy, bucket.utilisation)
    co2_g = (bucket.busy_w + bucket.idle_w) * bucket_s / KWH_J * co2_g_per_kwh
    return (at, bucket.device_kind, *worked, bucket.busy_w, bucket.idle_w, co2_g, bucket.basis)

"""Read what devices did: utilisation and power over time; hours, kWh and CO2 by device, job, person or project."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from harness.accounts.access import is_admin, visible_projects
from harness.accounts.models import User
from harness.calibration.known import Key, powers_known
from harness.errors import Invalid
from harness.jobs.control.usage import attempt_samples, device_key, is_pools, power_now_w, use_of
from harness.jobs.models import Allocation, DeviceUse, Job
from harness.pool.models import Device, PoolSetting
from harness.pool.power import device_power
from harness.pool.presence import Presence
from harness.pool.services import pool_setting_get
from scheduler.estimation.device_model import PowerModel
from scheduler.estimation.values import Basis

SPANS = {"day": timedelta(days=1), "week": timedelta(days=7), "month": timedelta(days=30), "year": timedelta(days=365)}
BUCKETS = {"day": 48, "week": 84, "month": 60, "year": 73}
"""Points of a timeline: half an hour, two hours, half a day, five days each."""
GROUPS = ("device", "job", "person", "project")
KWH_J = 3.6e6
HIDDEN = "of other projects"
USE_COLUMNS = ("name", "job", "device hours", "kWh", "CO2 g", "basis")
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


@dataclass(kw_only=True)
class UseRow:
    """What one device, job, person or project used."""

    name: str
    job_id: str = ""
    """Where the row is a job that still exists."""
    device_s: float = 0.0
    energy_j: float = 0.0
    bases: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Joules by basis."""

    @property
    def device_hours(self) -> float:
        """Hours times devices."""
        return self.device_s / 3600

    @property
    def kwh(self) -> float:
        """Energy in kWh."""
        return self.energy_j / KWH_J

    @property
    def basis(self) -> str:
        """Where most of the energy's figure comes from."""
        return basis_of(self.bases)


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


def use_rows(*, user: User, window: Window, by: str) -> list[UseRow]:
    """Use by device, job, person or project, most energy first.

    What belongs to projects the person does not see is one nameless row. Raises `Invalid`.
    """
    rows: dict[str, UseRow] = {}
    for use, key, name, job_id in use_grouped(user=user, window=window, by=by):
        seconds, joules = use_share(use, window.since, window.until)
        row = rows.setdefault(key, UseRow(name=name, job_id=job_id))
        row.device_s += seconds
        row.energy_j += joules
        row.bases[use.energy_basis] += joules
    return sorted(rows.values(), key=lambda row: (-row.energy_j, row.name))


def use_grouped(*, user: User, window: Window, by: str) -> Iterator[tuple[DeviceUse, str, str, str]]:
    """Each use in the window with key, name and job's id of what it belongs to, as the person may know it.

    Raises `Invalid`.
    """
    if by not in GROUPS:
        raise Invalid(f"Use cannot be grouped by {by!r}.", field="by", hint=f"Use one of: {', '.join(GROUPS)}.")
    seen = set(visible_projects(user).values_list("pk", flat=True))
    for use in uses_of(window):
        yield (use, *_group(use, by, is_admin(user) or use.project_id in seen or is_pools(use)))


def _group(use: DeviceUse, by: str, visible: bool) -> tuple[str, str, str]:
    """(key, name, job's id) of the row a use belongs to."""
    if by == "device":
        name = f"{use.node_name} {'GPU' if use.device_kind == 'cuda' else 'CPU'} {use.device_index}"
        return name, name, ""
    if not visible:
        return "", HIDDEN, ""
    if by == "job":
        return use.job_id or f"gone:{use.job_name}", use.job_name, use.job_id or ""
    if by == "person":
        return use.owner_name, use.owner_name, ""
    return use.project_id or f"gone:{use.project_name}", use.project_name, ""


def pool_timeline(window: Window) -> list[Bucket]:
    """Utilisation and power of each kind of device, oldest bucket first; of nodes that are in the pool today."""
    setting = pool_setting_get()
    uses: dict[str, list[DeviceUse]] = defaultdict(list)
    for use in uses_of(window):
        uses[use.device_kind].append(use)
    devices: dict[str, list[Device]] = defaultdict(list)
    for device in Device.objects.select_related("node"):
        devices[device.kind].append(device)
    kinds = sorted({*devices, *uses})
    presence = Presence(window.since, window.until)
    return [
        _bucket(window, number, kind, devices[kind], uses[kind], setting, presence)
        for number in range(window.buckets)
        for kind in kinds
    ]


def _bucket(
    window: Window,
    number: int,
    kind: str,
    devices: Sequence[Device],
    uses: Iterable[DeviceUse],
    setting: PoolSetting,
    presence: Presence,
) -> Bucket:
    since = window.since + timedelta(seconds=number * window.bucket_s)
    until = since + timedelta(seconds=window.bucket_s)
    worked: dict[str | None, float] = defaultdict(float)
    bases: dict[str, float] = defaultdict(float)
    for use in uses:
        seconds, joules = use_share(use, since, until)
        if seconds:
            worked[use.device_id] += seconds
            bases[use.energy_basis] += joules
    busy_j = sum(bases.values())
    busy = sum(worked.values()) / window.bucket_s
    idle_j = present_s = 0.0
    there = {device.pk: seconds for device in devices if (seconds := presence.seconds(device, since, until)) > 0}
    for device in devices:
        # Who worked was there, whatever is known of its node.
        seconds = max(there.get(device.pk, 0.0), worked.get(device.pk, 0.0))
        present_s += seconds
        idle_s = seconds - worked.get(device.pk, 0.0)
        idle_j += device_power(kind, device.model_name, setting.power_table).idle_w * idle_s
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


def use_cells(row: UseRow, co2_g_per_kwh: float) -> tuple[str | float, ...]:
    """A row of `USE_COLUMNS`."""
    return (row.name, row.job_id, row.device_hours, row.kwh, row.kwh * co2_g_per_kwh, row.basis)


def bucket_cells(bucket: Bucket, bucket_s: float, co2_g_per_kwh: float) -> tuple[str | float, ...]:
    """A row of `BUCKET_COLUMNS`."""
    at = bucket.starts_at.isoformat(timespec="seconds")
    worked = (bucket.devices, bucket.busy, bucket.utilisation)
    co2_g = (bucket.busy_w + bucket.idle_w) * bucket_s / KWH_J * co2_g_per_kwh
    return (at, bucket.device_kind, *worked, bucket.busy_w, bucket.idle_w, co2_g, bucket.basis)

"""What is held and planned of the devices that an offer may use: when so many of them fall free. Reads only."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Q, QuerySet
from django.utils import timezone

from harness.accounts.models import Project
from harness.jobs.models import Allocation, Job
from harness.jobs.options import options_of
from harness.pool.models import Device, NodeState, Quota, Reservation
from scheduler.kinds import declared_name
from scheduler.offers.values import DeviceGroup
from scheduler.placing.openings import Holding, earliest_together_s
from worker.states import JobState

UNKNOWN_LEAST_S = 600.0
"""A job that nobody has estimated is expected to hold its devices as long again as it has run, and at least this."""

_PLANS = ("pk", "options", "expected_start_at", "expected_high_at")
"""Who has such times has options: the spec is hardly ever asked for."""
_TIMES = ("pk", "state", "expected_high_at", "eta_s", "placed_at", "run_s")

_QUOTA = "\0quota"

Key = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Openings:
    """What is held and planned, by kind of device."""

    held: Mapping[Key, tuple[Holding, ...]] = field(default_factory=dict)
    capacity: Mapping[Key, int] = field(default_factory=dict)
    quota_held: Mapping[str, tuple[Holding, ...]] = field(default_factory=dict)
    """Kind of device -> what the project itself holds and is expected to hold of it, wherever that is."""
    quotas: Mapping[str, int] = field(default_factory=dict)
    """Kind -> what it may hold at once; missing where it may borrow, or has no quota."""
    guessed: bool = False
    """Some job's end is a guess."""

    def earliest_s(self, wanted: Mapping[Key, int], run_s: float, now_s: float) -> float | None:
        """Unix time from which such devices are free for `run_s` and the project may hold them; None: never."""
        held, capacity, all_wanted = dict(self.held), dict(self.capacity), dict(wanted)
        for (kind, _), count in wanted.items():
            if kind in self.quotas:
                # One more thing that each device takes one of; no device is called so.
                share = (kind, _QUOTA)
                held[share], capacity[share] = self.quota_held.get(kind, ()), self.quotas[kind]
                all_wanted[share] = all_wanted.get(share, 0) + count
        return earliest_together_s(held, capacity, all_wanted, run_s=run_s, now_s=now_s)

    def quota_used(self, kind: str, now_s: float) -> int:
        """Devices of the kind that the project holds now."""
        return sum(item.count for item in self.quota_held.get(kind, ()) if item.start_s <= now_s < item.finish_s)


def device_key(kind: str, model_name: str, slowdown: float) -> Key:
    """Kind and name under which a device is counted and priced."""
    return kind, declared_name(model_name, slowdown)


def reservations_now(project: Project | None, now: datetime) -> list[Reservation]:
    """Those that keep this project's jobs off, the first to end first."""
    return list(_for_others(project).filter(starts_at__lte=now, ends_at__gt=now).order_by("ends_at"))


def _for_others(project: Project | None) -> QuerySet[Reservation]:
    rows = Reservation.objects.filter(cancelled_at=None)
    return rows.exclude(project=project) if project is not None else rows


def openings_read(groups: Sequence[DeviceGroup], *, project: Project | None = None, without: str = "") -> Openings:
    """What other jobs hold and are expected to hold of the devices of the groups, and what is reserved for later.

    `project`: whose jobs may use what is reserved for them; `without`: id of the job that is priced.
    """
    now = timezone.now()
    now_s, usable = now.timestamp(), _usable(project, now)
    capacity = {(group.kind, group.model_name): sum(group.sizes) for group in groups}
    held: dict[Key, list[Holding]] = defaultdict(list)
    guessed = False
    running: dict[str, dict[Key, int]] = defaultdict(lambda: defaultdict(int))
    for job_id, device_id in Allocation.objects.exclude(job_id=without).values_list("job_id", "device_id"):
        if device_id in usable:
            running[job_id][usable[device_id]] += 1
    for job in Job.objects.filter(pk__in=running).only(*_TIMES):
        finish_s, known = _finish_s(job, now_s)
        guessed |= not known
        for key, count in running[job.pk].items():
            held[key].append(Holding(start_s=now_s, finish_s=finish_s, count=count))
    for job in _planned(without):
        option = options_of(job)[0]
        fitting = [key for key in capacity if key[0] == option.kind and option.takes(key[1])]
        counts = {(option.kind, name): count for name, count in option.parts}
        for key in fitting if option.parts else fitting[:1]:
            if job.expected_start_at and job.expected_high_at:
                start_s, end_s = job.expected_start_at.timestamp(), job.expected_high_at.timestamp()
                count = counts.get(key, option.count)
                held[key].append(Holding(start_s=start_s, finish_s=max(start_s, end_s), count=count))
    for key, kept in _kept_later(project, now, usable):
        held[key].append(kept)
    quotas = {row.device_kind: row.devices for row in Quota.objects.filter(project=project, may_borrow=False)}
    own, own_guessed = _own_held(project, without, now_s) if project and quotas else ({}, False)
    return Openings(
        held={key: tuple(items) for key, items in held.items()}, capacity=capacity, guessed=guessed or own_guessed,
        quota_held=own, quotas=quotas,
    )  # fmt: skip


def _own_held(project: Project, without: str, now_s: float) -> tuple[dict[str, tuple[Holding, ...]], bool]:
    """(kind -> what the project's jobs hold and are expected to hold, whether the end of some is a guess)."""
    held: dict[str, list[Holding]] = defaultdict(list)
    rows = Allocation.objects.filter(job__project=project).exclude(job_id=without)
    running = Counter(rows.values_list("job_id", "device__kind"))
    ends = {job.pk: _finish_s(job, now_s) for job in Job.objects.filter(pk__in={pk for pk, _ in running}).only(*_TIMES)}
    for (job_id, kind), count in running.items():
        held[kind].append(Holding(start_s=now_s, finish_s=ends[job_id][0], count=count))
    for job in _planned(without).filter(project=project):
        if job.expected_start_at and job.expected_high_at:
            option, start_s = options_of(job)[0], job.expected_start_at.timestamp()
            end_s = max(start_s, job.expected_high_at.timestamp())
            held[option.kind].append(Holding(start_s=start_s, finish_s=end_s, count=option.count))
    return {kind: tuple(items) for kind, items in held.items()}, not all(known for _, known in ends.values())


def _planned(without: str) -> QuerySet[Job]:
    """Waiting jobs that are expected to start some time."""
    waiting = Job.objects.filter(~Q(pk=without), state=JobState.QUEUED, deleted_at=None).only(*_PLANS)
    return waiting.exclude(expected_start_at=None).exclude(expected_high_at=None)


def _usable(project: Project | None, now: datetime) -> dict[str, Key]:
    """Devices that are offered, by id: of nodes that take work, without those that are reserved now for others."""
    reserved = [row.node_id or row.device_id for row in reservations_now(project, now)]
    there = Device.objects.filter(node__state=NodeState.UP, away_since=None)
    rows = there.exclude(Q(pk__in=reserved) | Q(node__in=reserved))
    columns = rows.values_list("pk", "kind", "model_name", "slowdown")
    return {pk: device_key(kind, model_name, slowdown) for pk, kind, model_name, slowdown in columns}


def _kept_later(project: Project | None, now: datetime, usable: Mapping[str, Key]) -> Iterator[tuple[Key, Holding]]:
    """Reservations to come: whoever starts before one has to end before it."""
    rows = list(_for_others(project).filter(starts_at__gt=now))
    on_node: dict[str, list[str]] = defaultdict(list)
    nodes = [row.node_id for row in rows if row.node_id]
    for pk, node_id in Device.objects.filter(node__in=nodes).values_list("pk", "node_id"):
        on_node[node_id].append(pk)
    for row in rows:
        devices = on_node[row.node_id] if row.node_id else [row.device_id or ""]
        for key, count in Counter(usable[pk] for pk in devices if pk in usable).items():
            start_s, end_s = row.starts_at.timestamp(), row.ends_at.timestamp()
            yield key, Holding(start_s=start_s, finish_s=end_s, count=count)


def _finish_s(job: Job, now_s: float) -> tuple[float, bool]:
    """(unix time at which a running job gives its devices back, whether that is more than a guess)."""
    if job.expected_high_at is not None and job.expected_high_at.timestamp() > now_s:
        return job.expected_high_at.timestamp(), True
    if job.eta_s is not None:
        return now_s + job.eta_s, True
    elapsed_s = now_s - job.placed_at.timestamp() if job.placed_at else 0.0
    return now_s + max(UNKNOWN_LEAST_S, elapsed_s), False

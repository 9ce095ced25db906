"""What is held and planned of the devices that an offer may use: when so many of them fall free. Reads only."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import NamedTuple

from django.db.models import Q, QuerySet
from django.utils import timezone

from harness.accounts.models import Project
from harness.estimates.brief import brief_ends
from harness.estimates.kept import Kept, held_of_others, kept_of
from harness.jobs.models import Allocation, Job
from harness.jobs.options import options_of
from harness.pool.models import Device, NodeState, Quota, Reservation
from scheduler.kinds import declared_name
from scheduler.offers.candidates import DeviceGroup
from scheduler.placing.openings import Holding, earliest_together_s
from scheduler.types import Option
from worker.states import JobState

UNKNOWN_LEAST_S = 600.0
"""A job that nobody has estimated is expected to hold its devices as long again as it has run, and at least this."""

_PLANS = ("pk", "project", "options", "expected_start_at", "expected_high_at")
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
    """Those that keep this project's jobs off, the first to end first, as people are told (`told_end`); without those
    for steps that are tried, which are over in seconds."""
    rows = list(_for_others(project).filter(starts_at__lte=now, ends_at__gt=now).order_by("pk"))
    brief = brief_ends(rows, now)
    return sorted((row for row in rows if row.pk not in brief), key=lambda row: row.told_end)


def _for_others(project: Project | None) -> QuerySet[Reservation]:
    rows = Reservation.objects.filter(cancelled_at=None)
    return rows.exclude(project=project) if project is not None else rows


def openings_read(
    groups: Sequence[DeviceGroup],
    *,
    project: Project | None = None,
    without: str = "",
    with_reserved: bool = False,
    now: datetime | None = None,
) -> Openings:
    """What other jobs hold and are expected to hold of the devices of the groups, and what is reserved for later.

    `project`: whose jobs may use what is reserved for them; `without`: id of the job that is priced. `with_reserved`:
    the groups have what is reserved now, too, which is expected back when people are told that it is. `now`: from when
    on it is asked for, where that was looked up before.
    """
    now = now or timezone.now()
    now_s, up = now.timestamp(), _devices_up()
    reserved = [(row, _devices_in(row, up)) for row in _for_others(project).filter(ends_at__gt=now)]
    brief = brief_ends((row for row, _ in reserved), now)
    keeps_off = [devices for row, devices in reserved if row.starts_at <= now and row.pk not in brief]
    kept_now = {pk for devices in keeps_off for pk in devices if not with_reserved}
    usable = {pk: device.key for pk, device in up.items() if pk not in kept_now}
    capacity = {(group.kind, group.model_name): sum(group.sizes) for group in groups}
    running = _running(without, usable, now_s)
    held = running.held
    kept = kept_of(reserved, {pk: device.key for pk, device in up.items()}, usable, running.free_s)
    for key, holding in _waiting_held(without, capacity, kept, now_s):
        held[key].append(holding)
    for row, devices in reserved:
        if with_reserved or row.starts_at > now or row.pk in brief:  # whoever starts before it has to end before it
            end = row.plan_end if row.starts_at > now else brief.get(row.pk) or row.back_at(now)
            span = {"start_s": row.starts_at.timestamp(), "finish_s": end.timestamp()}
            for key, count in Counter(usable[pk] for pk in devices if pk in usable).items():
                held[key].append(Holding(**span, count=count))
    quotas = {row.device_kind: row.devices for row in Quota.objects.filter(project=project, may_borrow=False)}
    own, own_guessed = _own_held(project, without, now_s) if project and quotas else ({}, False)
    return Openings(
        held={key: tuple(items) for key, items in held.items()}, capacity=capacity,
        guessed=running.guessed or own_guessed, quota_held=own, quotas=quotas,
    )  # fmt: skip


class _Running(NamedTuple):
    """What jobs hold now."""

    held: dict[Key, list[Holding]]
    """Of the devices that are offered."""
    free_s: dict[str, float]
    """Id of any device -> when it is given back."""
    guessed: bool


def _running(without: str, usable: Mapping[str, Key], now_s: float) -> _Running:
    held: dict[Key, list[Holding]] = defaultdict(list)
    free_s: dict[str, float] = {}
    guessed = False
    running: dict[str, list[str]] = defaultdict(list)
    for job_id, device_id in Allocation.objects.exclude(job_id=without).values_list("job_id", "device_id"):
        running[job_id].append(device_id)
    for job in Job.objects.filter(pk__in=running).only(*_TIMES):
        finish_s, known = _finish_s(job, now_s)
        free_s |= dict.fromkeys(running[job.pk], finish_s)
        counts = Counter(usable[pk] for pk in running[job.pk] if pk in usable)
        guessed |= bool(counts) and not known
        for key, count in counts.items():
            held[key].append(Holding(start_s=now_s, finish_s=finish_s, count=count))
    return _Running(held, free_s, guessed)


def _waiting_held(
    without: str, capacity: Mapping[Key, int], kept: Sequence[Kept], now_s: float
) -> Iterator[tuple[Key, Holding]]:
    """What waiting jobs are expected to hold, beside devices that are `kept` for their projects."""
    for job in _planned(without).order_by("expected_start_at", "pk"):
        if not (job.expected_start_at and job.expected_high_at):
            continue
        option, start_s = options_of(job)[0], job.expected_start_at.timestamp()
        end_s = max(start_s, job.expected_high_at.timestamp())
        fitting = [key for key in capacity if key[0] == option.kind and option.takes(key[1])]
        counts = {(option.kind, name): count for name, count in option.parts}
        for key in fitting if option.parts else fitting[:1]:
            wanted = Holding(start_s=start_s, finish_s=end_s, count=counts.get(key, option.count))
            own = partial(_is_part, option, key)
            for left in held_of_others(kept, job.project_id, wanted, is_there=own, now_s=now_s):
                yield key, left


def _is_part(option: Option, part: Key, key: Key) -> bool:
    """Whether devices of this kind may be those that the option takes as `part` of a mixture, or at all."""
    return key == part if option.parts else key[0] == option.kind and option.takes(key[1])


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


class _Up(NamedTuple):
    """A device of a node that takes work."""

    node_id: str
    key: Key


def _devices_up() -> dict[str, _Up]:
    """By id, those that are reserved included."""
    there = Device.objects.filter(node__state=NodeState.UP, away_since=None)
    columns = there.values_list("pk", "node", "kind", "model_name", "slowdown")
    return {pk: _Up(node_id, device_key(kind, name, slowdown)) for pk, node_id, kind, name, slowdown in columns}


def _devices_in(row: Reservation, up: Mapping[str, _Up]) -> list[str]:
    """Ids of the devices of a reservation that take work."""
    return [pk for pk, device in up.items() if row.device_id == pk or row.node_id == device.node_id]


def _finish_s(job: Job, now_s: float) -> tuple[float, bool]:
    """(unix time at which a running job gives its devices back, whether that is more than a guess)."""
    if job.expected_high_at is not None and job.expected_high_at.timestamp() > now_s:
        return job.expected_high_at.timestamp(), True
    if job.eta_s is not None:
        return now_s + job.eta_s, True
    elapsed_s = now_s - job.placed_at.timestamp() if job.placed_at else 0.0
    return now_s + max(UNKNOWN_LEAST_S, elapsed_s), False

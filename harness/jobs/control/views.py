"""The queue, the pool and the quotas as the pure scheduler sees them. Reads only."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Q
from django.utils import timezone

from harness.jobs.control.data_ways import NO_WAYS, DataWays, dataset_of, with_data
from harness.jobs.control.held import Held, ending_ids, rows_read
from harness.jobs.control.losses import Losses, losses_read
from harness.jobs.control.pool_rows import pool_view
from harness.jobs.models import Job
from harness.jobs.options import (
    options_narrower,
    options_of,
    options_refined,
    saved_step,
    slowdown_of,
    wanted_devices,
    wanted_memory_bytes,
    work_left,
)
from harness.jobs.promises import admitted_at
from harness.pool.caches import NodeCache, caches_get
from harness.pool.models import PoolSetting, Quota
from harness.pool.services import pool_setting_get
from scheduler import types
from scheduler.backoff import KEPT_S, MOST_S
from scheduler.types import JobView, Option, PoolView, Running
from worker.states import JobState

RESIZING = frozenset({"deadline_energy", "deadline"})
"""Policies that change what a running job holds: by the others it would stay as narrow as it began."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What one decision rests on."""

    jobs: Mapping[str, Job]
    views: tuple[JobView, ...]
    pool: PoolView
    quotas: types.Quotas
    setting: PoolSetting
    now_s: float
    queued: frozenset[str] = field(default_factory=frozenset)
    """Ids of those that may start."""
    coming: frozenset[str] = frozenset()
    """Devices that are shown as free, and that runs which become narrower still hold."""
    caches: Mapping[str, NodeCache] = field(default_factory=dict)
    """Of the nodes that do not see the store, by name."""
    ways: DataWays = NO_WAYS
    """Of the data of these jobs."""

    def name_for(self, reader: Job, job_id: str) -> str:
        """What those who see `reader` may know another job by."""
        other = self.jobs.get(job_id)
        if other is None or other.project_id != reader.project_id:
            return "a job of another project"
        return f"“{other.name}”"


def facts_read(*, with_delayed: bool = False) -> Facts:
    """Everything, in a fixed number of queries; `with_delayed`: for who only foresees, also jobs that are held back
    after a fault, and as free what a run that was told to end gives back in a moment.

    Those of them with a promise, or that start in a moment, are always planned with: nobody else gets meanwhile what
    they need.
    """
    now = timezone.now()
    setting = pool_setting_get()
    everything, queued, busy = rows_read(Q() if with_delayed else _is_planned(now))
    ending = ending_ids() if with_delayed else frozenset()
    holding = [one for one in everything if not one.leaves and one.job_id not in ending]
    held: dict[str, list[Held]] = defaultdict(list)
    for one in holding:
        held[one.job_id].append(one)
    running = [job for job in busy if held[job.pk]]
    lost = losses_read(queued)
    found = [_view_or_none(job, setting, now, avoid=lost.get(job.pk)) for job in queued]
    found += [_view_or_none(job, setting, now, held[job.pk]) for job in running]
    views = [view for view in found if view is not None]
    jobs = {job.pk: job for job in [*queued, *running]}
    pool, caches = pool_view(now, setting, holding), caches_get()
    ways = DataWays(caches, setting.data_mib_per_s, {dataset_of(job) for job in jobs.values()})
    return Facts(
        jobs=jobs,
        views=tuple(with_data(views, jobs, pool, ways, now.timestamp()) if caches else views),
        pool=pool,
        quotas=quotas_view(),
        setting=setting,
        now_s=now.timestamp(),
        queued=frozenset(job.pk for job in queued if with_delayed or not _is_delayed(job, now)),
        coming=frozenset(one.device_id for one in everything if one.leaves),
        caches=caches,
        ways=ways,
    )


def _view_or_none(
    job: Job, setting: PoolSetting, now: datetime, held: Sequence[Held] = (), avoid: Losses | None = None
) -> JobView | None:
    """One job; None where what is known of it makes no sense: it must not keep all others from being served."""
    try:
        return job_view(job, setting, now, held, avoid)
    except (ValueError, OverflowError):
        _log.exception("job %s cannot be planned with", job.pk)
        return None


def _is_due(now: datetime) -> Q:
    """Not held back after a fault; a moment further off than any delay comes from a clock that was set back."""
    return Q(retry_at=None) | Q(retry_at__lte=now) | Q(retry_at__gt=now + timedelta(seconds=MOST_S))


def _is_planned(now: datetime) -> Q:
    return _is_due(now) | Q(promised_at__isnull=False) | Q(retry_at__lte=now + timedelta(seconds=KEPT_S))


def _is_delayed(job: Job, now: datetime) -> bool:
    """The same for a job at hand, the other way round."""
    return job.retry_at is not None and now < job.retry_at <= now + timedelta(seconds=MOST_S)


def job_view(
    job: Job, setting: PoolSetting, now: datetime, held: Sequence[Held] = (), avoid: Losses | None = None
) -> JobView:
    """One job; `held` are its devices, in rank order; `avoid`: as in `JobView`."""
    options, running, slowdown = options_of(job), None, slowdown_of(job)
    if held:
        option = _running_option(job, held)
        options, option, slowdown = options_refined(job, option, held[0].changed_at)
        running = _running(job, option, held, now)
    if setting.policy in RESIZING:
        options = options_narrower(job, options)
    may_pause = _may_pause(job)
    if job.step and not may_pause:
        options = (running.option,) if running else options[:1]
    submitted, admitted = min(job.queued_at or job.created_at, now), admitted_at(job)
    return JobView(
        job_id=job.pk,
        options=options,
        submitted_s=submitted.timestamp(),
        project=job.project_id,
        priority=job.priority,
        rank=job.rank,
        work_left=work_left(job),
        deadline_s=job.deadline_at.timestamp() if job.deadline_at else None,
        promised=job.promised_at is not None,
        promised_s=admitted.timestamp() if admitted is not None and job.promised_at is not None else None,
        running=running,
        minimum_sandbox_level=setting.minimum_sandbox_level(own_code=job.own_code),
        slowdown=slowdown,
        can_pause=may_pause and (job.state == JobState.RUNNING or running is None or running.leaving),
        avoid=avoid or {},
    )


def _may_pause(job: Job) -> bool:
    """A generated loop saves when it is asked to; an edited one has shown that it does once it has saved."""
    return not job.program_edited or saved_step(job) is not None


def _running_option(job: Job, held: Sequence[Held]) -> Option:
    if held[0].option is not None:
        return held[0].option
    kind, _ = wanted_devices(job)
    return Option(kind=kind, count=len(held), memory_bytes=wanted_memory_bytes(job))


def _running(job: Job, option: Option, held: Sequence[Held], now: datetime) -> Running:
    # After the clock was set back it may have started in the future.
    since_s = min(held[0].since, now).timestamp()
    nodes = tuple(dict.fromkeys(one.node_name for one in held))
    return Running(
        option=option,
        nodes=nodes,
        device_ids=tuple(one.device_id for one in held),
        started_s=since_s,
        last_change_s=min(held[0].changed_at, now).timestamp(),
        leaving=job.state == JobState.PAUSING,
        counts=tuple(Counter(one.node_name for one in held).values()),
    )


def quotas_view() -> types.Quotas:
    """By project id."""
    rows: dict[str, list[Quota]] = defaultdict(list)
    for row in Quota.objects.select_related("project"):
        rows[row.project_id].append(row)
    return {
        project: types.Quota(
            devices={row.device_kind: row.devices for row in kinds},
            hard=frozenset(row.device_kind for row in kinds if not row.may_borrow),
            name=kinds[0].project.name,
        )
        for project, kinds in rows.items()
    }

"""Short hands for tests of jobs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from harness.jobs.control.tick import tick
from harness.jobs.models import Job, JobAttempt
from harness.jobs.options import job_options_set
from harness.jobs.states import job_move
from scheduler.types import Option
from worker.events import Event, EventKind
from worker.states import JobState

SUFFERED = {"code": "rank_killed", "message": "lost those on the others", "suffered": True}
BROKEN = {"code": "program_error", "message": "bad shape"}
"""Of a part of a run: it only lost the others; it is to blame."""


def event(job: Job, kind: str, seq: int, *, rank: int = -1, token: int = 1, time_s: float = 0, **data: Any) -> Event:
    """One event of a job."""
    at_s = time_s or 1.7e9 + seq
    return Event(kind=EventKind(kind), job_id=job.pk, token=token, rank=rank, seq=seq, time_s=at_s, data=data)


def stops(tasks_sent: list[tuple[str, list[Any], str]]) -> list[tuple[list[Any], str]]:
    """The stops sent: job, attempt, way, and the queue; without the stream, which follows from the job's name."""
    return [(args[:3], queue_name) for name, args, queue_name in tasks_sent if name == "node.stop"]


def queue(job: Job) -> Job:
    """Queue a draft."""
    assert job_move(job.pk, JobState.DRAFT, JobState.QUEUED, queued_at=timezone.now())
    job.refresh_from_db()
    return job


def place_now(job: Job) -> JobAttempt:
    """Queue and place a draft; a node must be there."""
    queue(job)
    assert tick() == 1
    job.refresh_from_db()
    return JobAttempt.objects.get(job=job, number=job.token)


def tick_later() -> int:
    """A tick after the pauses that jobs keep before they are started again."""
    Job.objects.exclude(retry_at=None).update(retry_at=timezone.now())
    return tick()


def run_now(job: Job) -> JobAttempt:
    """Queue, place and start a draft."""
    from harness.jobs.control.effects import events_apply

    attempt = place_now(job)
    token = attempt.number
    events_apply(
        job.pk,
        [
            event(job, "started", 0, token=token, sandbox_level=3, node="node-1"),
            event(job, "running", 0, rank=0, token=token),
        ],
    )
    job.refresh_from_db()
    attempt.refresh_from_db()
    return attempt


def age(attempt: JobAttempt, **seconds: float) -> None:
    """Make times of an attempt so many seconds old."""
    values = {name: timezone.now() - timedelta(seconds=value) for name, value in seconds.items()}
    JobAttempt.objects.filter(pk=attempt.pk).update(**values)


def estimated(
    job: Job, *, run_s: float = 600.0, counts: tuple[int, ...] = (1,), slowdown: float = 1.2, kind: str = "cpu"
) -> Job:
    """Give the job options whose run time falls with the number of devices."""
    options = [
        Option(
            kind=kind,
            count=count,
            mode="sync" if count > 1 else "single",
            rate_per_s=count / run_s,
            power_w=5.0 * count,
        )
        for count in counts
    ]
    job_options_set(job, options, slowdown=slowdown)
    return job


def wish(at: datetime) -> dict[str, Any]:
    """What a spec says of the finish that is wished."""
    return {"budget": {"deadline": at.isoformat()}}

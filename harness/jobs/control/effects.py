"""What each kind of event does to the database. Idempotent: high-water marks are written with the effects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from datetime import UTC, datetime

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from harness.broker import project_stream, publish
from harness.jobs.control.attempts import attempt_end
from harness.jobs.control.expectations import finish_outrun
from harness.jobs.control.found import Found, found_of, found_take
from harness.jobs.control.marks import fresh_events, words_lost
from harness.jobs.control.parts import is_spread, nodes_of
from harness.jobs.control.reading import end_told
from harness.jobs.control.releasing import returning_take
from harness.jobs.control.saved import checkpoints_drop, checkpoints_gone, checkpoints_take, course_step
from harness.jobs.control.spread import ends_take
from harness.jobs.control.telemetry import (
    has_moved,
    history_cut,
    number_of,
    points_end_tell,
    points_of,
    points_write,
    progress_of,
    progress_word,
    samples_of,
)
from harness.jobs.control.widths import width_take
from harness.jobs.failures import failure_of
from harness.jobs.models import Job, JobAttempt, JobEvent, ResourceSample
from harness.jobs.states import job_move
from harness.pool.models import Node
from worker.events import Event, EventKind, FailureCode
from worker.states import JobState
from worker.watchdog import made_a_step


def events_apply(job_id: str, events: Collection[Event]) -> int:
    """Take in events of one job; return how many were new. Events of an older attempt, or seen before, are dropped."""
    lost = _words_lost(job_id, events)
    found = found_of(job_id, events, lost=lost)  # before the transaction: reading may take long
    gone = checkpoints_gone(job_id, events, lost=lost)
    with transaction.atomic():
        job = Job.objects.select_for_update().filter(pk=job_id).first()
        if job is None:
            return 0
        attempt = JobAttempt.objects.filter(job=job, number=job.token).first()
        if attempt is None:
            return 0
        fresh = fresh_events(attempt, [event for event in events if event.token == job.token])
        if not fresh:
            return 0
        attempt.seen_at = timezone.now()
        JobAttempt.objects.filter(pk=attempt.pk).update(seen_seq=attempt.seen_seq, seen_at=attempt.seen_at)
        by_kind: dict[EventKind, list[Event]] = defaultdict(list)
        for event in fresh:
            by_kind[event.kind].append(event)
        _overheard(job, attempt, by_kind)
        if lost or by_kind[EventKind.RUNNING]:
            checkpoints_drop(job, gone)  # before what is saved now: one under such a name is there again
        if lost and found:
            found_take(job, attempt, found.without(by_kind[EventKind.CHECKPOINT]))
        for kind, effect in _EFFECTS.items():
            if by_kind[kind]:
                effect(job, attempt, by_kind[kind])
        if by_kind[EventKind.EXITED]:
            _exited(attempt, by_kind[EventKind.EXITED], found)
    return len(fresh)


def _words_lost(job_id: str, events: Collection[Event]) -> bool:
    """Whether the attempt that the job has now said more before these events than has arrived."""
    attempts = JobAttempt.objects.filter(job_id=job_id, number=F("job__token"))
    attempt = attempts.only("number", "seen_seq").first()
    if attempt is None:
        return False
    return words_lost(attempt.seen_seq, (event for event in events if event.token == attempt.number))


def _overheard(job: Job, attempt: JobAttempt, by_kind: dict[EventKind, list[Event]]) -> None:
    """What other words imply where a broker that lost its memory took STARTED or RUNNING with it: each is sent once."""
    said = [event for kind, events in by_kind.items() if kind != EventKind.EXITED for event in events]
    if attempt.started_at is None and said and not by_kind[EventKind.STARTED]:
        attempt.started_at = _time(min(event.time_s for event in said))
        JobAttempt.objects.filter(pk=attempt.pk).update(started_at=attempt.started_at)
    if job.state == JobState.PLACED and not by_kind[EventKind.RUNNING]:
        by_kind[EventKind.RUNNING] = sorted(filter(made_a_step, said), key=lambda event: event.time_s)[:1]


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _started(job: Job, attempt: JobAttempt, events: list[Event]) -> None:
    JobAttempt.objects.filter(pk=attempt.pk, started_at=None).update(started_at=_time(events[-1].time_s))
    levels = [level for event in events if isinstance(level := event.data.get("sandbox_level"), int)]
    if levels:
        level = min(levels)
        # On several nodes the weakest counts.
        known = job.sandbox_level if is_spread(attempt) and _was_told(job, attempt) else None
        Job.objects.filter(pk=job.pk).update(sandbox_level=level if known is None else min(level, known))
    for event in events:
        message = f"Started on {event.data.get('node', '')}"
        JobEvent.objects.create(job=job, kind="attempt", token=attempt.number, message=message, data=dict(event.data))


def _was_told(job: Job, attempt: JobAttempt) -> bool:
    return JobEvent.objects.filter(job=job, kind="attempt", token=attempt.number).exists()


def _running(job: Job, attempt: JobAttempt, events: list[Event]) -> None:
    at, course = _time(events[0].time_s), course_step(job, attempt)
    if course is not None and attempt.running_at is None:  # each node of a gang says so once
        history_cut(job, course)  # what is told from now on is another course
    JobAttempt.objects.filter(pk=attempt.pk, running_at=None).update(running_at=at)
    moved = job_move(
        job.pk,
        JobState.PLACED,
        JobState.RUNNING,
        if_token=attempt.number,
        message="First step made",
        data={"start_s": number_of(events[0].data.get("start_s"))},
        running_at=job.running_at or at,
        **finish_outrun(job),
    )
    if moved is None:
        # Heard after its end, or while it pauses: the moment is a fact all the same.
        Job.objects.filter(pk=job.pk, running_at=None).update(running_at=at)


def _progress(job: Job, attempt: JobAttempt, events: list[Event]) -> None:
    fields = progress_of(attempt, events)
    Job.objects.filter(pk=job.pk).update(**fields, moved_at=timezone.now())
    publish(project_stream(job.project_id), "job", progress_word(job, fields))


def _metric(job: Job, attempt: JobAttempt, events: list[Event]) -> None:
    points, changed = points_of(job, events)
    points_end_tell(job, changed)
    points_write(points)
    moved = {"moved_at": timezone.now()} if has_moved(events) else {}
    Job.objects.filter(pk=job.pk).update(**changed, **moved)
    job.last_values, job.metric_best = changed["last_values"], changed["metric_best"]
    job.points_told = changed["points_told"]


def _sample(job: Job, attempt: JobAttempt, events: list[Event]) -> None:
    nodes = {node.name: node for node in Node.objects.filter(name__in=nodes_of(attempt))}
    ResourceSample.objects.bulk_create(samples_of(job, events, attempt, nodes))


def _history(kind: str, limit: int = 200) -> Callable[[Job, JobAttempt, list[Event]], None]:
    """Events that become lines of history; a program that floods them keeps its first `limit`."""

    def effect(job: Job, attempt: JobAttempt, events: list[Event]) -> None:
        have = JobEvent.objects.filter(job=job, kind=kind, token=attempt.number).count()
        for event in events[: max(0, limit - have)]:
            told = (
                failure_of(event.data, fallback=FailureCode.PROGRAM_ERROR).to_dict() if kind == "error" else event.data
            )
            message = str(event.data.get("message", ""))[:4000]
            data = {**told, "rank": event.rank}
            JobEvent.objects.create(job=job, kind=kind, token=attempt.number, message=message, data=data)

    return effect


def _exited(attempt: JobAttempt, events: list[Event], found: Found | None) -> None:
    if is_spread(attempt):
        ends_take(attempt, events, found)
        return
    # Whoever was to be stopped and is not there any more is told of as stopped, after what it told itself.
    attempt_end(attempt, *end_told(events[0]), found, ended_s=events[0].time_s)


_EFFECTS: dict[EventKind, Callable[[Job, JobAttempt, list[Event]], None]] = {
    EventKind.STARTED: _started,
    EventKind.RUNNING: _running,
    EventKind.PROGRESS: _progress,
    EventKind.METRIC: _metric,
    EventKind.CHECKPOINT: checkpoints_take,
    EventKind.SAMPLE: _sample,
    EventKind.WIDTH: width_take,
    EventKind.NOTE: _history("note"),
    EventKind.ERROR: _history("error"),
    EventKind.RETURNING: returning_take,
}
"""In the order in which they are applied in one batch, and EXITED after them. LOG lives in files and streams only."""

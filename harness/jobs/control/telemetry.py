"""What runs say all the time: progress, values, use of resources. Read here; taken in for many runs at once.

Of a hundred events hardly one is of another kind. A transaction and eight statements for each run and second would be
the first limit of a large pool, so runs that said nothing else share theirs (docs/benchmarks.md, `make bench-scale`).
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import F, Max, Min
from django.utils import timezone

from harness.broker import project_stream, publish_all
from harness.database import DATABASE_AWAY, rows_update
from harness.jobs.control.marks import fresh_events, words_lost
from harness.jobs.control.parts import nodes_of
from harness.jobs.models import Job, JobAttempt, MetricPoint, ResourceSample
from harness.jobs.states import job_note
from harness.pool.models import Node
from worker.events import Event, EventKind
from worker.merit import larger_is_better
from worker.states import JobState
from worker.watchdog import made_a_step

RANK_KEY = re.compile(r"rank(\d+)/")
"""What a value of a single rank begins with."""
KINDS = frozenset({EventKind.PROGRESS, EventKind.METRIC, EventKind.SAMPLE})
KEYS_PER_EVENT_MAX = 500
KEYS_PER_JOB_MAX = 1000
KEY_LENGTH_MAX = 80
POINTS_PER_JOB_MAX = 2_000_000
"""So many points of its curves are kept of a job: 110 values in each of 10,000 epochs are half of that."""
BATCH = 500
"""Rows of one statement."""
EPOCHS_MAX = 2**31 - 1
"""Of a run; its column holds no more."""
SPAN_MAX_S = 3.15e9
"""A hundred years."""
_log = logging.getLogger(__name__)


def telemetry_apply(by_job: Mapping[str, Sequence[Event]]) -> set[str]:
    """Take in the events of all runs that said nothing but telemetry; return the ids of those that are dealt with.

    The rest is left to `events_apply`: runs that said more, whose row somebody else holds (nothing waits here, so
    nothing can lock up), of whom a word was lost, and all where one event is poison.
    """
    ids = {job_id for job_id, events in by_job.items() if all(event.kind in KINDS for event in events)}
    if len(ids) < 2:
        return set()
    try:
        return _apply(by_job, ids)
    except DATABASE_AWAY:
        raise
    except Exception:
        _log.exception("telemetry of %d runs: taking it one by one", len(ids))
        return set()


@transaction.atomic
def _apply(by_job: Mapping[str, Sequence[Event]], ids: set[str]) -> set[str]:
    columns = ("project_id", "state", "token", "last_values", "points_told", "metric_name", "metric_best")
    jobs = Job.objects.select_for_update(skip_locked=True).only(*columns).in_bulk(ids)
    attempts = JobAttempt.objects.filter(job__in=jobs, number=F("job__token")).defer("option", "failure")
    found, rows = list(attempts), _Rows()
    names = {name for attempt in found for name in nodes_of(attempt)}
    nodes = {node.name: node for node in Node.objects.only("name").filter(name__in=names)}
    for attempt in found:
        events = [event for event in by_job[attempt.job_id] if event.token == attempt.number]
        if words_lost(attempt.seen_seq, events) or _has_begun_unheard(jobs[attempt.job_id], attempt, events):
            del jobs[attempt.job_id]
        elif fresh := fresh_events(attempt, events):
            rows.take(jobs[attempt.job_id], attempt, fresh, nodes)
    rows.write()
    return set(jobs)


def _has_begun_unheard(job: Job, attempt: JobAttempt, events: Iterable[Event]) -> bool:
    """Whether these events show more of a start than is known (`effects`)."""
    steps = job.state == JobState.PLACED and any(map(made_a_step, events))
    return attempt.started_at is None or steps


class _Rows:
    """What changes, gathered over runs."""

    def __init__(self) -> None:
        self._seen: list[JobAttempt] = []
        self._changes: dict[str, dict[str, Any]] = {}
        self._points: list[MetricPoint] = []
        self._samples: list[ResourceSample] = []
        self._words: list[tuple[str, str, dict[str, Any]]] = []

    def take(self, job: Job, attempt: JobAttempt, fresh: Sequence[Event], nodes: Mapping[str, Node]) -> None:
        """One run's new events."""
        by_kind = {kind: [event for event in fresh if event.kind is kind] for kind in KINDS}
        self._seen.append(attempt)
        changes = self._changes[job.pk] = {}
        if told := by_kind[EventKind.PROGRESS]:
            changes |= progress_of(attempt, told)
            self._words.append((project_stream(job.project_id), "job", progress_word(job, changes)))
        if told := by_kind[EventKind.METRIC]:
            points, changed = points_of(job, told)
            points_end_tell(job, changed)
            changes |= changed
            self._points += points
        if has_moved(fresh):
            changes["moved_at"] = timezone.now()
        self._samples += samples_of(job, by_kind[EventKind.SAMPLE], attempt, nodes)

    def write(self) -> None:
        """All of it."""
        now = timezone.now()
        rows_update(JobAttempt, {seen.pk: {"seen_seq": seen.seen_seq, "seen_at": now} for seen in self._seen})
        rows_update(Job, self._changes)
        points_write(self._points)
        ResourceSample.objects.bulk_create(self._samples, batch_size=BATCH)
        publish_all(self._words)


def has_moved(events: Iterable[Event]) -> bool:
    """Whether a run got on: ranks that only wait for others do not."""
    return any(event.kind in {EventKind.PROGRESS, EventKind.METRIC} and not event.data.get("waits") for event in events)


def progress_of(attempt: JobAttempt, events: Sequence[Event]) -> dict[str, Any]:
    """Fields of the job by the newest PROGRESS.

    Before a run has its data and its checkpoint it does not know where it stands: what is known of the job still holds.
    """
    data, is_over = events[-1].data, bool(attempt.ended_at or attempt.released_at)
    stands = {
        "step": count_of(data.get("step")),
        "steps_total": count_of(data.get("steps_total")),
        "epoch": number_of(data.get("epoch")) or 0.0,
    }
    return {
        **(stands if stands["step"] or stands["steps_total"] else {}),
        "epochs": min(count_of(data.get("epochs")), EPOCHS_MAX),
        # What is heard after the end of its ranks says nothing of now.
        "samples_per_s": None if is_over else number_of(data.get("samples_per_s")),
        "eta_s": None if is_over else _span_s(data.get("eta_s")),
        "phase": str(data.get("phase") or "")[:40],
    }


def progress_word(job: Job, fields: Mapping[str, Any]) -> dict[str, Any]:
    """For lists; who watches the job itself hears the run's own words."""
    return {"job_id": job.pk, "event": "progress", **fields}


def points_of(job: Job, events: Iterable[Event]) -> tuple[list[MetricPoint], dict[str, Any]]:
    """(points of METRIC events, as far as they are kept; what changes of the job). Of a step that was told twice the
    later counts."""
    points: dict[tuple[str, int], MetricPoint] = {}
    last = dict(job.last_values)
    for event in events:
        step, epoch = count_of(event.data.get("step")), number_of(event.data.get("epoch")) or 0.0
        values = event.data.get("values")
        for name, value in list(values.items())[:KEYS_PER_EVENT_MAX] if isinstance(values, dict) else ():
            key, number = str(name)[:KEY_LENGTH_MAX], number_of(value)
            if key not in last and len(last) >= KEYS_PER_JOB_MAX:
                continue
            points[key, step] = MetricPoint(job=job, key=key, step=step, epoch=epoch, value=number, time_s=event.time_s)
            last[key] = number
    best = _best(job, [point.value for (key, _), point in points.items() if key == _metric_key(job)])
    kept = list(points.values())[: max(0, POINTS_PER_JOB_MAX - job.points_told)]
    return kept, {"last_values": last, "metric_best": best, "points_told": job.points_told + len(kept)}


def points_end_tell(job: Job, changed: Mapping[str, Any]) -> None:
    """Say in the history of a job that it has told as many points as are kept, where these are the last of them."""
    if job.points_told < POINTS_PER_JOB_MAX <= changed["points_told"]:
        text = f"{POINTS_PER_JOB_MAX:,} values of this run are kept, and no more: its curves end here."
        job_note(job, "note", text)


def history_cut(job: Job, after_step: int) -> None:
    """Forget the values after a step that a run goes on from: curves, last and best values must not mix histories."""
    points = MetricPoint.objects.filter(job=job)
    points.filter(step__gt=after_step).delete()
    last_step = dict(points.values_list("key").annotate(Max("step")))
    last: dict[str, float | None] = {key: None for key in job.last_values if key in last_step}
    for key, step, value in points.filter(step__in=set(last_step.values())).values_list("key", "step", "value"):
        if last_step[key] == step:
            last[key] = value
    known = points.filter(key=_metric_key(job), value__isnull=False)
    best = known.aggregate(best=Max("value") if larger_is_better(job.metric_name) else Min("value"))["best"]
    job.last_values, job.metric_best, job.points_told = last, best, points.count()
    Job.objects.filter(pk=job.pk).update(last_values=last, metric_best=best, points_told=job.points_told)


def ranks_forget(job: Job, stay: Collection[int] = ()) -> None:
    """Let go of the last values of ranks that are no longer there; their curves stay."""
    kept = {
        key: value for key, value in job.last_values.items() if not (of := RANK_KEY.match(key)) or int(of[1]) in stay
    }
    if len(kept) < len(job.last_values):
        job.last_values = kept
        Job.objects.filter(pk=job.pk).update(last_values=kept)


def _metric_key(job: Job) -> str:
    return f"val/{job.metric_name}"


def points_write(points: Sequence[MetricPoint]) -> None:
    """Upsert: a resumed attempt overwrites the steps it makes again."""
    MetricPoint.objects.bulk_create(
        points,
        batch_size=BATCH,
        update_conflicts=True,
        unique_fields=["job", "key", "step"],
        update_fields=["epoch", "value", "time_s"],
    )


def samples_of(
    job: Job, events: Iterable[Event], attempt: JobAttempt, nodes: Mapping[str, Node]
) -> list[ResourceSample]:
    """Rows of SAMPLE events; `nodes` holds at least those of the attempt, by name."""
    known = [nodes[name] for name in nodes_of(attempt) if name in nodes]
    only = known[0] if len(known) == 1 else None
    mine = {node.name: node for node in known}
    return [
        ResourceSample(
            job=job,
            node=mine.get(str(event.data.get("node")), only),
            token=event.token,
            time_s=event.time_s,
            data=dict(event.data),
        )
        for event in events
    ]


def number_of(value: Any) -> float | None:
    """A finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def count_of(value: Any) -> int:
    """A whole number that a database can hold, not below 0."""
    number = number_of(value)
    return max(0, min(int(number), 2**62)) if number is not None else 0


def _span_s(value: Any) -> float | None:
    """Seconds from 0 to a hundred years; None for what is no length of time."""
    number = number_of(value)
    return number if number is not None and 0 <= number <= SPAN_MAX_S else None


def _best(job: Job, values: Iterable[float | None]) -> float | None:
    known = [value for value in (job.metric_best, *values) if value is not None]
    if not known:
        return None
    return max(known) if larger_is_better(job.metric_name) else min(known)

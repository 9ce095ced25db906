"""What an attempt has left on the disk: figures, for control that ends it, and checkpoints whose word did not arrive.

A broker that loses its memory, or a node that is lost, takes the word of a checkpoint with it. Without that word the
next attempt would go on from an older one, and put the newer aside. It is looked for where the words that arrive have
a gap, and at the end of the attempt.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from django.conf import settings
from django.db.models import F

from harness.database import DATABASE_AWAY
from harness.errors import HarnessError
from harness.jobs.control.parts import first_lost_at
from harness.jobs.control.reading import end_told
from harness.jobs.control.saved import Saved, checkpoints_add, course_begin, saved_read
from harness.jobs.control.telemetry import count_of
from harness.jobs.models import Checkpoint, Job, JobAttempt
from harness.jobs.results import job_results
from harness.jobs.states import job_note
from harness.store import folder_beneath
from worker.events import Event, EventKind, Outcome
from worker.fence import STEP
from worker.plan import RunPaths
from worker.transfer.tree import CHECKPOINT_NAME

Figures = dict[str, float]
"""Values for fields of `Job`."""
UNHEARD_MAX = 32
"""So many checkpoints that nobody told of are looked at, the newest: a program may make any number of folders."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Found:
    """What lies there of the attempt that a job has now."""

    figures: Figures = field(default_factory=dict)
    """Fields that the results of a run that succeeded give."""
    unheard: tuple[Saved, ...] = ()
    """Whole checkpoints of its course that the job does not list, the oldest first."""

    def without(self, told: Iterable[Event]) -> Found:
        """The same without those that these CHECKPOINT events tell of."""
        names = {event.data.get("name") for event in told}
        return replace(self, unheard=tuple(one for one in self.unheard if one.name not in names))


def found_read(job_id: str, outcome: Outcome) -> Found:
    """Look at the store. Best called before the transaction that ends the attempt: no lock is held while a disk is
    slow."""
    figures = _figures(job_id) if outcome is Outcome.SUCCEEDED else {}
    try:
        return Found(figures=figures, unheard=_unheard(job_id))
    except DATABASE_AWAY:
        raise
    except Exception:
        # A program can leave anything there, and must not keep its attempt from ending.
        _log.warning("checkpoints of job %s cannot be looked at", job_id, exc_info=True)
        return Found(figures=figures)


def found_of(job_id: str, events: Iterable[Event], *, lost: bool) -> Found | None:
    """The same where these events tell that a part of the run has ended, or words before them were `lost`; else None.

    While a run goes on it has no figures."""
    ends = [end_told(event)[0] for event in events if event.kind is EventKind.EXITED]
    if not ends and not lost:
        return None
    return found_read(job_id, Outcome.SUCCEEDED if Outcome.SUCCEEDED in ends else Outcome.LOST)


def found_take(job: Job, attempt: JobAttempt, found: Found) -> None:
    """Take in what nobody told of. In a transaction, with the job locked."""
    if first_lost_at(attempt) is not None:
        return  # then `rescue` alone decides what counts
    listed = _listed(job)  # some may have been heard of since
    new = [one for one in found.unheard if one.name not in listed]
    if new:
        checkpoints_add(job, attempt, new)
        names = ", ".join(one.name for one in new)
        text = f"Found on the disk, as no word of it had arrived: {names}."
        job_note(job, "note", text, data={"step": new[-1].step, "checkpoint": new[-1].name})


def _unheard(job_id: str) -> tuple[Saved, ...]:
    """Only of the attempt itself, or of an older one of the same course, whose node may have returned it late.

    After a person had the job go on from an earlier point, those of the course that was left may lie there still, since
    a node without the store puts them aside in its own cache alone.
    """
    attempts = JobAttempt.objects.select_related("job").filter(job_id=job_id, ended_at=None)
    attempt = attempts.filter(number=F("job__token")).first()
    if attempt is None:
        return ()
    paths: RunPaths = settings.STORE.job(job_id)
    names = sorted(_names(paths) - _listed(attempt.job), key=lambda name: (len(name), name))
    found = (saved_read(name, paths) for name in names[-UNHEARD_MAX:])
    begin = max(1, course_begin(attempt.job))
    return tuple(one for one in found if one is not None and begin <= one.token <= attempt.number)


def _names(paths: RunPaths) -> set[str]:
    """Of the checkpoints in their place. Raises `OSError`, `UnsafePath`."""
    if not os.path.lexists(paths.checkpoints):
        return set()
    with folder_beneath(paths.root, str(paths.checkpoints.relative_to(paths.root))) as descriptor:
        found = os.listdir(descriptor)  # noqa: PTH208 - a descriptor, not a path
    return {name for name in found if name.startswith(STEP) and CHECKPOINT_NAME.fullmatch(name)}


def _listed(job: Job) -> set[str]:
    """All that were heard of, also those removed; without those of a course that was left for an earlier point."""
    rows = Checkpoint.objects.filter(job=job)
    if job.resume_from and (start := rows.filter(name=job.resume_from).first()) is not None:
        rows = rows.filter(step__lte=start.step)
    return set(rows.values_list("name", flat=True))


def _figures(job_id: str) -> Figures:
    """Nothing where the results cannot be read: the run itself did succeed. The program wrote the file, and may have
    made it large."""
    try:
        results = job_results(Job(pk=job_id))
    except (HarnessError, OSError) as error:  # a disk may not give them, now or ever: the devices are free all the same
        told = error.message if isinstance(error, HarnessError) else error
        _log.warning("job %s succeeded without readable results: %s", job_id, told)
        return {}
    metric, timing = results.get("metric", {}), results.get("timing", {})
    # A run that stopped early has made fewer steps than were planned.
    made = count_of(timing.get("steps")) if isinstance(timing, dict) else 0
    fields: Figures = {"step": made} if made else {}
    for source, name in (("value_val", "metric_best"), ("value_test", "metric_test")):
        value = metric.get(source) if isinstance(metric, dict) else None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            fields[name] = float(value)
    return fields

"""What people are told of a job: which lines of its history are worth a message, and its words.

Called where history is written (`harness.jobs.states`), in its transaction.
"""

from __future__ import annotations

from django.conf import settings

from harness.jobs.models import Job, JobEvent
from harness.jobs.promises import danger_hint
from harness.notify.messages import Message, one_line
from harness.notify.models import Kind
from harness.notify.outbox import project_told, tell
from worker.states import JobState
from worker.words import duration_words

_ENDS = {JobState.SUCCEEDED: Kind.JOB_FINISHED, JobState.FAILED: Kind.JOB_FAILED}


def job_event_tell(event: JobEvent) -> None:
    """Write the messages that a line of a job's history is worth; most are worth none."""
    kind = _kind_of(event)
    if kind is None:
        return
    job = Job.objects.select_related("project", "owner").get(pk=event.job_id)
    # With the job: numbers of events that are gone are given anew by a restored database.
    about = f"event:{job.pk}:{event.pk}"
    if kind == Kind.PROMISE_AT_RISK:
        # It may be safe and at risk again many times; what was promised can be broken once.
        what = "missed" if event.data.get("passed") else "promise"
        about = f"{what}:{job.pk}:{job.promised_at.timestamp() if job.promised_at else 0:.0f}"
    tell(kind, job.project, about, _job_message(kind, job, event), owner_id=job.owner_id)


def _kind_of(event: JobEvent) -> Kind | None:
    if event.kind == "state":
        return _ENDS.get(JobState(event.new_state))
    return Kind.PROMISE_AT_RISK if event.kind == "note" and event.data.get("warning") else None


def _job_message(kind: Kind, job: Job, event: JobEvent) -> Message:
    misses = "has missed" if event.data.get("passed") else "may miss"
    titles = {
        Kind.JOB_FINISHED: f"{job.name} finished",
        Kind.JOB_FAILED: f"{job.name} failed",
        Kind.PROMISE_AT_RISK: f"{job.name} {misses} its promised finish",
    }
    details = {
        Kind.JOB_FINISHED: _result_words(job),
        Kind.JOB_FAILED: _failure_words(job),
        Kind.PROMISE_AT_RISK: f"{event.message} {danger_hint(job)}",
    }
    return Message(
        title=one_line(titles[kind]),
        detail=one_line(details[kind]),
        url=f"{settings.PORTAL_URL}/jobs/{job.pk}/",
        project=project_told(job.project),
        job={"id": job.pk, "name": job.name, "state": job.state, "owner": job.owner.username},
    )


def _result_words(job: Job) -> str:
    took = f"It ran for {duration_words(job.run_s)}." if job.run_s else ""
    if job.promised_at and job.finished_at and job.finished_at > job.promised_at:
        late_s = (job.finished_at - job.promised_at).total_seconds()
        took = f"{took} It was done {duration_words(late_s)} after its promised finish.".strip()
    if job.metric_best is None:
        return took
    return f"Best {job.metric_name} on the validation part: {job.metric_best:.4g}. {took}".strip()


def _failure_words(job: Job) -> str:
    """The cause as far as it is known, and what to do. The program's own message may hold data: it stays behind the
    link."""
    cause = job.run_failure.cause if job.run_failure else None
    return f"{cause.message} {cause.hint}".strip() if cause else ""

"""Writes messages in the transaction of what they tell of: none is lost, and none tells what did not happen.

Called where history is written (`harness.jobs.states`) and by the look at projects' storage. Control sends them.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from harness.accounts.models import Membership, Project, Role, User
from harness.broker import task_send_on_commit
from harness.jobs.models import Job, JobEvent
from harness.notify.messages import Message, one_line
from harness.notify.models import Channel, Delivery, Kind, NotifyChoice
from worker.states import JobState
from worker.words import duration_words

SEND_TASK = "control.notify"
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
        about = f"promise:{job.pk}:{job.promised_at.timestamp() if job.promised_at else 0:.0f}"
    tell(kind, job.project, about, _job_message(kind, job, event), owner_id=job.owner_id)


def _kind_of(event: JobEvent) -> Kind | None:
    if event.kind == "state":
        return _ENDS.get(JobState(event.new_state))
    return Kind.PROMISE_AT_RISK if event.kind == "note" and event.data.get("warning") else None


def _job_message(kind: Kind, job: Job, event: JobEvent) -> Message:
    titles = {
        Kind.JOB_FINISHED: f"{job.name} finished",
        Kind.JOB_FAILED: f"{job.name} failed",
        Kind.PROMISE_AT_RISK: f"{job.name} may miss its promised finish",
    }
    details = {
        Kind.JOB_FINISHED: _result_words(job),
        Kind.JOB_FAILED: _failure_words(job),
        Kind.PROMISE_AT_RISK: event.message,
    }
    return Message(
        title=one_line(titles[kind]),
        detail=one_line(details[kind]),
        url=f"{settings.PORTAL_URL}/jobs/{job.pk}/",
        project=_project_told(job.project),
        job={"id": job.pk, "name": job.name, "state": job.state, "owner": job.owner.username},
    )


def _result_words(job: Job) -> str:
    took = f"It ran for {duration_words(job.run_s)}." if job.run_s else ""
    if job.metric_best is None:
        return took
    return f"Best {job.metric_name} on the validation part: {job.metric_best:.4g}. {took}".strip()


def _failure_words(job: Job) -> str:
    """What is known of the cause. The program's own message may hold data, and stays behind the link."""
    cause = job.run_failure.cause if job.run_failure else None
    return cause.message if cause else ""


def storage_tell(project: Project, about: str, detail: str) -> None:
    """Write the messages that a project's storage is full."""
    message = Message(
        title=one_line(f"{project.name} is out of storage"),
        detail=detail,
        url=f"{settings.PORTAL_URL}/projects/{project.slug}/storage/",
        project=_project_told(project),
    )
    tell(Kind.STORAGE_FULL, project, about, message)


def _project_told(project: Project) -> dict[str, str]:
    return {"slug": project.slug, "name": project.name}


def tell(kind: Kind, project: Project, about: str, message: Message, *, owner_id: int | None = None) -> None:
    """Write one message for everybody who chose to be told of it, by each of their channels; wake control."""
    rows = [
        Delivery(
            user_id=choice.user_id, project=project, channel=channel, kind=kind, about=about,
            body=message.to_dict(), due_at=timezone.now(),
        )
        for choice in _wanted_by(kind, project, owner_id)
        for channel in channels_of(choice)
    ]  # fmt: skip
    deliveries_add(rows)


def deliveries_add(rows: Iterable[Delivery]) -> None:
    """Store messages and wake control."""
    if made := list(rows):
        Delivery.objects.bulk_create(made, ignore_conflicts=True)
        task_send_on_commit(SEND_TASK)


def channels_of(choice: NotifyChoice) -> list[Channel]:
    """By which channels a person is told, as things are now."""
    found = [Channel.EMAIL] if choice.by_email and email_possible(choice.user) else []
    return [*found, Channel.WEBHOOK] if choice.webhook_url else found


def email_possible(user: User) -> bool:
    """Whether there is a mail server and an address."""
    return settings.SMTP is not None and bool(user.email)


def may_be_told(user: User, project: Project | None) -> bool:
    """Whether the person still sees the project."""
    if project is None or user.is_superuser:
        return user.is_active
    return user.is_active and Membership.objects.filter(project=project, user=user).exists()


def _wanted_by(kind: Kind, project: Project, owner_id: int | None) -> QuerySet[NotifyChoice]:
    """Of a job: its owner and who watches the project. Of storage: who adds to the project, and who watches it."""
    members = Membership.objects.filter(project=project)
    adding = members.exclude(role=Role.VIEWER).values("user")
    concerned = Q(user_id=owner_id) if owner_id is not None else Q(user__in=adding)
    sees = Q(user__in=members.values("user")) | Q(user__is_superuser=True)
    watching = Q(pk__in=NotifyChoice.projects.through.objects.filter(project=project).values("notifychoice"))
    rows = NotifyChoice.objects.select_related("user").filter(**{kind.value: True, "user__is_active": True})
    return rows.filter(sees, concerned | watching).order_by("pk")

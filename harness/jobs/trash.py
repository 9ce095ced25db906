"""The trash of jobs: in, out, and deleted for good."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from harness.accounts.access import require
from harness.accounts.audit import audit_write
from harness.accounts.models import Role, User
from harness.broker import publish_job, task_send_on_commit
from harness.errors import Conflict, Forbidden, NotFound
from harness.jobs.models import Job
from harness.jobs.states import job_note
from harness.trash import PURGE_BEGUN
from worker.states import TERMINAL, JobState

_AT_REST = [str(state) for state in {*TERMINAL, JobState.DRAFT, JobState.PAUSED}]


def job_delete(*, user: User, job: Job) -> None:
    """Move to the trash, from where it can be restored for `TRASH_DAYS`. Again: does nothing.

    Raises `NotFound`, `Forbidden`, `Conflict`.
    """
    _owner_check(user, job)
    with transaction.atomic():
        if Job.objects.filter(pk=job.pk, state__in=_AT_REST, deleted_at=None).update(deleted_at=timezone.now()):
            job_note(job, "person", "Moved to the trash", actor=user, data={"deleted": True})
        elif not Job.objects.filter(pk=job.pk).exclude(deleted_at=None).exists():
            raise Conflict("This job runs or waits.", hint="Cancel it first.")
    job.refresh_from_db()


def _owner_check(user: User, job: Job) -> None:
    role = require(user, job.project, Role.MEMBER)
    if job.owner_id != user.pk and role != Role.ADMIN:
        raise Forbidden("Only its owner or an admin of the project deletes a job.", hint="Ask one of them.")


def job_restore(*, user: User, job: Job) -> None:
    """Take out of the trash. Raises `NotFound`, `Forbidden`."""
    require(user, job.project, Role.MEMBER)
    with transaction.atomic():
        if Job.objects.filter(pk=job.pk, deleted_at__gt=PURGE_BEGUN).update(deleted_at=None):
            job_note(job, "person", "Taken out of the trash", actor=user, data={"deleted": False})
        elif not Job.objects.filter(pk=job.pk, deleted_at=None).exists():
            raise NotFound("This job is being deleted for good.", hint="Its time in the trash is over.")
    job.refresh_from_db()


def job_purge(*, user: User, job: Job) -> None:
    """Delete a job in the trash for good: it counts no more from now on, and control removes its files and rows.

    Again: does nothing. Raises `NotFound`, `Forbidden`, `Conflict` (not in the trash).
    """
    _owner_check(user, job)
    with transaction.atomic():
        rows = Job.objects.filter(pk=job.pk, state__in=_AT_REST, deleted_at__gt=PURGE_BEGUN)
        if rows.update(deleted_at=PURGE_BEGUN):
            audit_write(user, "job_purge", f"{job.pk} {job.name}", project=job.project)
            publish_job(job.project_id, job.pk, "updated", {"deleted": True})
        elif not Job.objects.filter(pk=job.pk, deleted_at=PURGE_BEGUN).exists():
            raise Conflict("This job is not in the trash.", hint="Delete it first, then for good.")
        task_send_on_commit("control.jobs_purge")

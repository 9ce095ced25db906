"""The trash of projects: what one holds, in, out, and deleted for good."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from harness.accounts.access import require, token_of
from harness.accounts.audit import audit_write
from harness.accounts.models import Membership, Project, Role, User
from harness.broker import task_send_on_commit
from harness.datasets.models import UNFINISHED
from harness.errors import Conflict, Invalid, NotFound
from harness.jobs.models import Job
from harness.names import name_line
from harness.pool.reservations import reservation_list, reservation_release
from harness.pool.turn import facts_change
from harness.storage.use import StorageUse, storage_of
from harness.trash import PURGE_BEGUN
from worker.states import HAS_ATTEMPT, JobState
from worker.words import counted

_NAMED = 5
"""Jobs in the way that are named."""
_IN_THE_WAY = Q(state__in=[str(state) for state in {JobState.QUEUED, *HAS_ATTEMPT}]) | Q(
    state=JobState.PAUSED.value, preempted=True
)
"""Jobs that wait, run, or return their results; one that was preempted is queued again by itself."""


@dataclass(frozen=True, kw_only=True)
class ProjectHolds:
    """What goes with a project."""

    jobs: int
    drafts: int
    """Of the jobs."""
    datasets: int
    weights: int
    uploads: int
    """Unfinished."""
    members: int
    tokens: int
    """API tokens for this project alone."""
    reservations: int
    """They end as soon as it is in the trash."""
    quotas: int
    """Of devices and of the disk."""
    saved_views: int
    notifications: int
    use: StorageUse
    """Bytes on the disk; contents that other projects name as well stay."""
    in_the_way: list[Job]
    """Jobs that wait, run or return their results: nothing is deleted before they have ended."""


def project_holds(*, user: User, project: Project) -> ProjectHolds:
    """What would go with it, for its admins. Raises `NotFound`, `Forbidden`."""
    require(user, project, Role.ADMIN, in_trash=True)
    jobs = project.jobs.exclude(deleted_at=PURGE_BEGUN)
    return ProjectHolds(
        jobs=jobs.count(),
        drafts=jobs.filter(state=JobState.DRAFT.value).count(),
        datasets=project.datasets.count(),
        weights=project.weights_files.count(),
        uploads=project.uploads.filter(UNFINISHED).count(),
        members=project.memberships.count(),
        tokens=project.tokens.filter(revoked_at=None).count(),
        reservations=reservation_list().filter(project=project).count(),
        quotas=project.quotas.count() + int(hasattr(project, "storage_quota")),
        saved_views=project.saved_views.count(),
        notifications=project.deliveries.count(),
        use=storage_of(project).use,
        in_the_way=_in_the_way(project),
    )


def _in_the_way(project: Project) -> list[Job]:
    return list(project.jobs.filter(_IN_THE_WAY).order_by("created_at", "pk"))


def name_to_type(project: Project) -> str:
    """What a person types to delete it: its name as pages show it, or its address where they show nothing of that."""
    return name_line(project.name) or project.slug


def project_delete(*, user: User, project: Project, name: str) -> None:
    """Move to the trash with all that is in it, from where it can be restored for `TRASH_DAYS`. Again: does nothing.

    `name`: `name_to_type`, typed by the person. Raises `NotFound`, `Forbidden`, `Invalid`, `Conflict` while jobs
    wait, run or return their results.
    """
    require(user, project, Role.ADMIN, in_trash=True)
    wanted = name_to_type(project)
    if name_line(name) != wanted:
        raise Invalid(
            f"Type the project's name, {wanted}, to delete it.",
            field="name",
            hint="It goes to the trash with all its jobs, datasets and weights.",
        )
    with transaction.atomic():
        facts_change()  # before the row of the project, as whoever submits a job does
        # Its key stays: whoever has just added a row to it, and waits for the facts, is not to wait for this.
        row = Project.objects.select_for_update(no_key=True).filter(pk=project.pk).first()
        if row is None or row.deleted_at is not None:
            return
        if jobs := _in_the_way(row):
            raise _jobs_in_the_way(row, jobs)
        for reservation in reservation_list().filter(project=row):
            reservation_release(reservation)
        Project.objects.filter(pk=row.pk).update(deleted_at=timezone.now())
        audit_write(user, "project_delete", row.slug, project=row, name=row.name)
    project.refresh_from_db()


def _jobs_in_the_way(project: Project, jobs: list[Job]) -> Conflict:
    names = ", ".join(f"{job.name} ({job.pk}, {job.state})" for job in jobs[:_NAMED])
    more = f" and {len(jobs) - _NAMED:,} more" if len(jobs) > _NAMED else ""
    details: dict[str, Any] = {"jobs": [job.pk for job in jobs]}
    return Conflict(
        f"{counted(len(jobs), 'job')} of {project.name} still waiting, running or returning results: {names}{more}.",
        code="jobs_active",
        hint="Cancel them, or let them end, then delete the project.",
        details=details,
    )


def projects_trashed(*, user: User) -> QuerySet[Project]:
    """Projects in the trash that the person may restore, the newest there first."""
    rows = Project.objects.filter(deleted_at__gt=PURGE_BEGUN)
    held = token_of(user)
    if held and held.project_id:
        return rows.none()
    if not user.is_superuser:
        rows = rows.filter(pk__in=Membership.objects.filter(user=user, role=Role.ADMIN).values("project"))
    return rows.order_by("-deleted_at", "pk")


def project_any(*, user: User, slug: str) -> Project:
    """A project by its slug, one in the trash as well. Raises `NotFound`."""
    for project in Project.objects.filter(slug=slug):
        with suppress(NotFound):  # in the words of one that does not exist
            require(user, project, Role.VIEWER, in_trash=True)
            return project
    raise NotFound(f"There is no project {slug}.", hint="Check the list of your projects.")


def project_restore(*, user: User, project: Project) -> None:
    """Take out of the trash, with all that is in it but its reservations. Again: does nothing.

    Raises `NotFound`, `Forbidden`.
    """
    require(user, project, Role.ADMIN, in_trash=True)
    with transaction.atomic():
        if Project.objects.filter(pk=project.pk, deleted_at__gt=PURGE_BEGUN).update(deleted_at=None):
            audit_write(user, "project_restore", project.slug, project=project)
        elif not Project.objects.filter(pk=project.pk, deleted_at=None).exists():
            raise NotFound("This project is being deleted for good.", hint="Its time in the trash is over.")
    project.refresh_from_db()


def project_purge(*, user: User, project: Project) -> None:
    """Delete a project in the trash for good, now: control removes files and rows. Again: does nothing.

    Raises `NotFound`, `Forbidden`, `Conflict` (not in the trash).
    """
    require(user, project, Role.ADMIN, in_trash=True)
    with transaction.atomic():
        if Project.objects.filter(pk=project.pk, deleted_at__gt=PURGE_BEGUN).update(deleted_at=PURGE_BEGUN):
            audit_write(user, "project_purge", project.slug, project=project, name=project.name)
        elif not Project.objects.filter(pk=project.pk, deleted_at=PURGE_BEGUN).exists():
            raise Conflict("This project is not in the trash.", hint="Delete it first, then for good.")
        task_send_on_commit("control.jobs_purge")

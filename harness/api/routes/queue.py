"""Routes: the queue."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router

from harness.accounts.access import require_admin
from harness.api.auth import person
from harness.api.routes.reservations import change_done, preview
from harness.api.schemas.base import Items
from harness.api.schemas.queue import ChangeDone, DrainDelayed, QueueJob, QueueMove, QueueOut, QueuePatch, QueueRowOut
from harness.errors import Invalid, NotFound
from harness.jobs import consequences, queue_order, queueing
from harness.jobs.models import Job
from harness.jobs.selectors import job_get

router = Router()


def _row_out(row: queueing.QueueRow) -> QueueRowOut:
    job = row.job
    named = QueueJob(id=job.pk, name=job.name, project=job.project.slug, owner=job.owner.username) if job else None
    rest = {name: getattr(row, name) for name in QueueRowOut.model_fields if name != "job"}
    return QueueRowOut(job=named, **rest)


@router.get("", response=QueueOut, summary="The queue")
def queue(
    request: HttpRequest, mine: Annotated[bool, Query(description="The caller's own jobs alone.")] = False
) -> QueueOut:
    """What waits and what runs, with the times to expect. Jobs of projects the caller does not see are nameless."""
    waiting, running = queueing.queue_rows(user=person(request), mine=mine)
    return QueueOut(waiting=[_row_out(row) for row in waiting], running=[_row_out(row) for row in running])


def _job(request: HttpRequest, job_id: str) -> Job:
    user = person(request)
    require_admin(user)
    return job_get(user=user, job_id=job_id)


@router.patch("/{job_id}", response=ChangeDone, summary="Set a job's priority")
def priority_set(request: HttpRequest, job_id: str, body: QueuePatch) -> ChangeDone:
    """Higher goes first; the answer tells who waits longer. For admins."""
    user, job = person(request), _job(request, job_id)
    return change_done(lambda: queueing.job_priority_set(user=user, job=job, priority=body.priority))


@router.post("/{job_id}/consequences", response=Items[DrainDelayed], summary="What a priority would do")
def priority_preview(request: HttpRequest, job_id: str, body: QueuePatch) -> dict[str, Any]:
    """Who would wait longer, and who would end sooner; nothing is kept. For admins."""
    user, job = person(request), _job(request, job_id)
    return preview(consequences.priority_consequences(user=user, job=job, priority=body.priority))


@router.post("/{job_id}/move", response=ChangeDone, summary="Move a job in the queue")
def move(request: HttpRequest, job_id: str, body: QueueMove) -> ChangeDone:
    """Up, down, first, last, or just before another waiting job; the answer tells who waits longer. For admins."""
    user, job = person(request), _job(request, job_id)
    to, before = _target(request, body)
    if to is not None:
        return change_done(lambda: queue_order.job_shift(user=user, job=job, to=to))
    return change_done(lambda: queue_order.job_reorder(user=user, job=job, before=before))


@router.post("/{job_id}/move/consequences", response=Items[DrainDelayed], summary="What a move would do")
def move_preview(request: HttpRequest, job_id: str, body: QueueMove) -> dict[str, Any]:
    """Who would wait longer, and who would end sooner; nothing is moved. For admins."""
    user, job = person(request), _job(request, job_id)
    to, before = _target(request, body)
    if to is not None:
        return preview(consequences.shift_consequences(user=user, job=job, to=to))
    return preview(consequences.move_consequences(user=user, job=job, before=before))


def _target(request: HttpRequest, body: QueueMove) -> tuple[str | None, Job | None]:
    """(where to, or before which job). Raises `Invalid`, `NotFound`."""
    if (body.to is None) == (body.before is None):
        raise Invalid("Say either where to or before which job.", field="to", hint="Give `to` or `before`.")
    return body.to, None if body.to is not None else _before(request, body.before or "")


def _before(request: HttpRequest, job_id: str) -> Job:
    """The job that another one is moved before. Raises `NotFound` with that field: the other one is there."""
    try:
        return _job(request, job_id)
    except NotFound as error:
        told = f"There is no job {job_id!r} to move it before."
        raise NotFound(told, field="before", hint="The page Queue and `dlh queue` show what waits.") from error

"""Routes: jobs and what is done with them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Body, Query, Router, Status

from harness.accounts.models import User
from harness.accounts.selectors import project_get
from harness.api.auth import person
from harness.api.job_query import JobQuery, listing_of
from harness.api.paging import Paging, page_body
from harness.api.schemas.base import Done, PageOf
from harness.api.schemas.datasets import DatasetRef
from harness.api.schemas.jobs import (
    CloneIn,
    CloneOut,
    JobChanged,
    JobDetail,
    JobIn,
    JobOut,
    JobPatch,
    ResumeIn,
    SubmitIn,
)
from harness.api.schemas.programs import CheckAsked, CheckOut
from harness.api.schemas.weights import WeightsRef
from harness.datasets.selectors import dataset_get
from harness.errors import HarnessError, Invalid, NotFound
from harness.ids import ID_LENGTH
from harness.jobs import selectors, services
from harness.jobs.columns import columns_values
from harness.jobs.control.awaited import results_awaited
from harness.jobs.control.expectations import left_s
from harness.jobs.copying import edits_given_way, left_out, spec_with
from harness.jobs.emulated import emulated_words
from harness.jobs.mode import job_mode
from harness.jobs.models import Job
from harness.jobs.outlook import is_unknown_now, outlook
from harness.jobs.programs import spec_read
from harness.jobs.queueing import job_reserved_until
from harness.jobs.spec_edits import gave_way_told
from harness.jobs.spec_marks import spec_mark
from harness.jobs.starts import start_times
from harness.rates import submitting
from harness.rates.selectors import job_rate, rate_test_first
from worker.states import HOLDS_DEVICES, JobState

router = Router()
CHECK_ID_LENGTH_MAX = 2 * ID_LENGTH + 1
"""`<job>-<trial run>`."""
_OUT = (
    *("id", "name", "state", "waiting_code", "waiting_text", "failure", "task", "family", "tags", "program_edited"),
    *("program_own", "step", "steps_total", "epoch", "epochs", "samples_per_s", "phase", "metric_name"),
    *("metric_best", "metric_test", "last_values", "restarts", "sandbox_level", "created_at", "queued_at"),
    *("placed_at", "running_at", "finished_at", "deleted_at", "run_s", "deadline_at", "promised_at", "warning"),
)
_DETAIL = ["notes", "spec", "resolved", "suggestions", "program_sha256", "priority", "token", "resume_from"]
_DETAIL += ["promise", "options"]


def _out(job: Job) -> dict[str, Any]:
    progress = job.step / job.steps_total if job.steps_total else 0.0
    return {
        **{name: getattr(job, name) for name in _OUT},
        "samples_per_s": job.samples_per_s if JobState(job.state) in HOLDS_DEVICES else None,
        "project": job.project.slug,
        "owner": job.owner.username,
        "dataset": DatasetRef(id=job.dataset_id, name=job.dataset.name),
        "parent": job.parent_id,
        "progress": 1.0 if job.state == JobState.SUCCEEDED else min(1.0, progress),
        **start_times(job),
        "eta_s": None if is_unknown_now(job) else left_s(job),
        **outlook(job),
    }


def job_detail(job: Job) -> dict[str, Any]:
    """A job as `JobDetail`."""
    mode, why = job_mode(job)
    rate, rate_why = job_rate(job)
    awaited = results_awaited(job)
    return {
        **_out(job),
        **{name: getattr(job, name) for name in _DETAIL},
        "spec_sha256": spec_mark(job),
        "weights": WeightsRef(id=job.weights.pk, name=job.weights.name) if job.weights else None,
        "mode": mode,
        "mode_why": why,
        "learning_rate": rate,
        "learning_rate_why": rate_why,
        "rate_test_first": rate_test_first(job),
        "reserved_until": job_reserved_until(job),
        "queue_position": selectors.queue_position(job),
        "awaited": awaited and asdict(awaited),
        "emulated": emulated_words(job),
    }


def job_changed(job: Job, lost: int) -> dict[str, Any]:
    """A job as `JobChanged`; `lost`: edits of its spec.yaml that gave way."""
    return {**job_detail(job), "left_out": gave_way_told(lost)}


def _job(request: HttpRequest, job_id: str) -> tuple[User, Job]:
    user = person(request)
    return user, selectors.job_get(user=user, job_id=job_id)


@router.get("", response=PageOf[JobOut], summary="Jobs")
def job_list(
    request: HttpRequest, query: Annotated[JobQuery, Query()], paging: Annotated[Paging, Query()]
) -> dict[str, Any]:
    """One page of the jobs that the caller sees, filtered and sorted here."""
    listing = listing_of(person(request), query)
    page = selectors.job_list(
        user=person(request),
        filters=listing.filters,
        sort=listing.sort,
        page=paging.page,
        page_size=paging.page_size,
        columns=listing.columns,
    )
    return page_body(page, lambda job: {**_out(job), "columns": columns_values(job, listing.columns)})


@router.post("", response={201: JobDetail}, summary="Make a job")
def job_create(request: HttpRequest, body: JobIn) -> Status[Any]:
    """Resolve the spec, generate the program, keep both as a draft; with `submit` queue it at once. Of a `model` or
    `files` that do not parse, or cannot be called, nothing is kept."""
    user = person(request)
    try:
        dataset = dataset_get(user=user, dataset_id=body.dataset)
    except NotFound as error:
        raise NotFound(error.message, hint=error.hint, field="dataset") from error
    project = project_get(user=user, slug=body.project) if body.project else dataset.project
    job = services.job_create(
        user=user,
        project=project,
        dataset=dataset,
        spec=spec_with(spec_read(body.wish).model_dump(mode="json"), body.changes) if body.changes else body.wish,
        own_model=body.model,
        files=body.files,
        name=body.name,
    )
    if body.submit:
        try:
            job = submitting.job_submit(user=user, job=job, promised=body.promise)
        except HarnessError as error:
            # The draft stays: whoever is refused has to find it.
            error.hint = f"{error.hint} The draft is kept as {job.pk}.".strip()
            if error.details is None or isinstance(error.details, dict):
                error.details = {**(error.details or {}), "job": job.pk}
            raise
    return Status(201, job_detail(job))


@router.get("/{job_id}", response=JobDetail, summary="A job")
def job_get(request: HttpRequest, job_id: str) -> dict[str, Any]:
    """One job, in the trash or not."""
    return job_detail(_job(request, job_id)[1])


@router.patch("/{job_id}", response=JobChanged, summary="Change a job")
def job_update(request: HttpRequest, job_id: str, body: JobPatch) -> dict[str, Any]:
    """Name, notes and tags at any time; the spec while it is a draft (the program is made again). Where several edit
    it, `expected_spec_sha256` keeps one from undoing what another has saved meanwhile."""
    user, job = _job(request, job_id)
    lost = 0
    if body.spec is not None or body.yaml is not None:
        job = services.job_spec_update(user=user, job=job, spec=body.wish, seen=body.expected_spec_sha256)
        lost = edits_given_way(job)
    job = services.job_update(user=user, job=job, name=body.name, notes=body.notes, tags=body.tags)
    return job_changed(job, lost)


@router.delete("/{job_id}", response=Done, summary="Delete a job")
def job_delete(request: HttpRequest, job_id: str) -> Done:
    """Move it to the trash, from where it can be restored for two weeks."""
    user, job = _job(request, job_id)
    services.job_delete(user=user, job=job)
    return Done()


@router.post("/{job_id}/submit", response=JobDetail, summary="Submit a job")
def job_submit(request: HttpRequest, job_id: str, body: Annotated[SubmitIn | None, Body()] = None) -> dict[str, Any]:
    """Queue a draft. A deadline that cannot be promised is refused (422 `deadline_refused`, with the earliest finish
    that can be, what would help, and the chance that it is on time all the same), unless no promise is asked for."""
    user, job = _job(request, job_id)
    promised = body.promise if body else True
    return job_detail(submitting.job_submit(user=user, job=job, promised=promised))


@router.post("/{job_id}/cancel", response=JobDetail, summary="Cancel a job")
def job_cancel(request: HttpRequest, job_id: str) -> dict[str, Any]:
    """Stop it for good; its checkpoints stay. Asking again does nothing."""
    user, job = _job(request, job_id)
    return job_detail(services.job_cancel(user=user, job=job))


@router.post("/{job_id}/pause", response=JobDetail, summary="Pause a job")
def job_pause(request: HttpRequest, job_id: str) -> dict[str, Any]:
    """Have it save a checkpoint and leave its devices. Asking again does nothing."""
    user, job = _job(request, job_id)
    return job_detail(services.job_pause(user=user, job=job))


@router.post("/{job_id}/resume", response=JobDetail, summary="Resume a job")
def job_resume(request: HttpRequest, job_id: str, body: Annotated[ResumeIn | None, Body()] = None) -> dict[str, Any]:
    """Queue a paused, failed or cancelled job again, from a checkpoint; or one with `awaited` results, without them."""
    user, job = _job(request, job_id)
    return job_detail(services.job_resume(user=user, job=job, checkpoint=body.checkpoint if body else ""))


@router.post("/{job_id}/clone", response={201: CloneOut}, summary="Clone a job")
def job_clone(request: HttpRequest, job_id: str, body: Annotated[CloneIn | None, Body()] = None) -> Status[Any]:
    """A new draft with the same spec but for the `changes`, and edited files. `left_out` tells what it has not: a
    deadline that has passed, edits of spec.yaml in a field that is changed, and how many others found no place. Of
    changes that are refused nothing is kept."""
    user, job = _job(request, job_id)
    name, changes = (body.name, body.changes) if body else ("", {})
    clone = services.job_clone(user=user, job=job, name=name, changes=changes)
    return Status(201, {**job_detail(clone), "left_out": left_out(job, changes, clone)})


@router.post("/{job_id}/restore", response=JobDetail, summary="Restore a job")
def job_restore(request: HttpRequest, job_id: str) -> dict[str, Any]:
    """Take it out of the trash."""
    user, job = _job(request, job_id)
    services.job_restore(user=user, job=job)
    return job_detail(job)


@router.post("/{job_id}/check", response={202: CheckAsked}, summary="Try a job's program")
def job_check(request: HttpRequest, job_id: str) -> Status[Any]:
    """Have a node compile the files, build the model and run train.py for its first steps on real rows."""
    user, job = _job(request, job_id)
    return Status(202, CheckAsked(check_id=services.program_check(user=user, job=job)))


@router.get("/{job_id}/check/{check_id}", response=CheckOut, summary="Answer to a trial run")
def job_check_get(request: HttpRequest, job_id: str, check_id: str) -> dict[str, Any]:
    """`waiting` until the node has answered."""
    _, job = _job(request, job_id)
    if len(check_id) > CHECK_ID_LENGTH_MAX:
        raise Invalid("This is not the id of a trial run.", field="check_id")
    answer = selectors.program_check_get(job, check_id)
    return {"check_id": check_id, "waiting": answer is None, **(answer or {})}

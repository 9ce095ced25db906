"""Routes: the program of a job, its files, and its final weights."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest, HttpResponseBase
from ninja import Body, Query, Router

from harness.api.auth import person
from harness.api.caching import json_if_changed
from harness.api.document import unless_same
from harness.api.schemas.programs import DiffOut, FileIn, FileOut, FileWrittenOut, ProgramOut, ResetIn
from harness.errors import NotFound
from harness.jobs import selectors, services
from harness.jobs.models import Job
from harness.jobs.program_checks import file_fault
from harness.responses import body_response, file_response

router = Router()


def _job(request: HttpRequest, job_id: str) -> Job:
    return selectors.job_get(user=person(request), job_id=job_id)


def _program(job: Job) -> dict[str, Any]:
    return {
        "sha256": job.program_sha256,
        "edited": job.program_edited,
        "own": job.program_own,
        "files": selectors.program_files(job),
    }


@router.get("/{job_id}/program", response=ProgramOut, summary="Program of a job", openapi_extra=unless_same())
def program(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """All its files, in reading order. Has an ETag."""
    job = _job(request, job_id)
    version = f"{job.program_sha256}.{job.program_edited}"
    return json_if_changed(request, version, lambda: ProgramOut.model_validate(_program(job)).model_dump())


@router.post("/{job_id}/program/reset", response=ProgramOut, summary="Put files back as generated")
def program_reset(request: HttpRequest, job_id: str, body: Annotated[ResetIn | None, Body()] = None) -> dict[str, Any]:
    """One file or all of a draft; files that were added go."""
    user = person(request)
    job = services.program_reset(user=user, job=_job(request, job_id), name=body.name if body else None)
    return _program(job)


@router.get("/{job_id}/program/diff", response=DiffOut, summary="What was edited")
def program_diff(request: HttpRequest, job_id: str) -> dict[str, Any]:
    """Unified diff from the generated to the present program."""
    job = _job(request, job_id)
    edited = [item["name"] for item in selectors.program_files(job) if item["edited"]]
    return {"files": edited, "text": selectors.program_diff(job)}


@router.get("/{job_id}/program/{name}", response=FileOut, summary="A file of the program")
def program_file(request: HttpRequest, job_id: str, name: str) -> dict[str, Any]:
    """Its text, and whether it was edited."""
    return _file(_job(request, job_id), name)


@router.put("/{job_id}/program/{name}", response=FileWrittenOut, summary="Write a file of the program")
def program_file_write(request: HttpRequest, job_id: str, name: str, body: FileIn) -> dict[str, Any]:
    """Edit or add a file of a draft. The program then counts as edited and runs in a stronger sandbox."""
    job = services.program_file_write(
        user=person(request),
        job=_job(request, job_id),
        name=name,
        text=body.text,
        expected_sha256=body.expected_sha256,
    )
    file = _file(job, name)
    return {**file, "fault": file_fault(name, file["text"])}


def _file(job: Job, name: str) -> dict[str, Any]:
    files = {str(item["name"]): item for item in selectors.program_files(job)}
    if name not in files:
        raise NotFound(f"The program has no file {name[:60]}.", field="name", hint=f"It has {', '.join(files)}.")
    return files[name]


@router.api_operation(["GET", "HEAD"], "/{job_id}/program.zip", summary="Download the program")
def program_zip(
    request: HttpRequest,
    job_id: str,
    data: Annotated[bool, Query(description="With the packed data, and the weights that it starts from.")] = False,
) -> HttpResponseBase:
    """The files and the small runtime they import; with `data` also what they train on, ready to run alone.

    Honours `Range`.
    """
    job = _job(request, job_id)
    body = selectors.program_zip(job, with_data=data)
    return body_response(request, body, content_type="application/zip", filename=f"program-{job.pk}.zip")


@router.api_operation(["GET", "HEAD"], "/{job_id}/model.zip", summary="Download the trained model")
def model_zip(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """Program, final weights and what prepares rows for them: unpacked, `python predict.py` runs. Honours `Range`."""
    job = _job(request, job_id)
    body = selectors.model_zip(job)
    return body_response(request, body, content_type="application/zip", filename=f"model-{job.pk}.zip")


@router.api_operation(["GET", "HEAD"], "/{job_id}/weights", summary="Download the weights")
def weights(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """The final weights as safetensors; honours `Range`."""
    job = _job(request, job_id)
    return file_response(request, selectors.weights_open(job), filename=f"{job.pk}.safetensors")

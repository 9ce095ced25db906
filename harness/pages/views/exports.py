"""The trained model as ONNX, on the tab of results: asked for, waited for, downloaded."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponseBase

from harness.accounts.models import Role
from harness.errors import HarnessError
from harness.jobs.models import Job
from harness.jobs.selectors import export_get, job_get
from harness.jobs.services import export_create
from harness.pages.web import can, page, person, show


def onnx_context(job: Job, *, may_change: bool, error: HarnessError | None = None) -> dict[str, Any]:
    """What jobs/onnx.html shows."""
    return {"job": job, "export": export_get(job), "may_change": may_change, "error": error}


@page("GET", "HEAD", "POST")
def job_onnx(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """How far it is, as a fragment; POST asks for it."""
    user = person(request)
    job = job_get(user=user, job_id=job_id)
    error: HarnessError | None = None
    if request.method == "POST":
        job_get(user=user, job_id=job_id, role=Role.MEMBER)
        try:
            export_create(user=user, job=job)
        except HarnessError as problem:
            error = problem
    return show(
        request, "jobs/onnx.html", onnx_context(job, may_change=can(user, job.project, Role.MEMBER), error=error)
    )

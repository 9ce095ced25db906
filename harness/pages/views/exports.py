"""The trained model as ONNX, on the tab of results: asked for, waited for, downloaded."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponseBase

from harness.accounts.models import Role
from harness.errors import HarnessError
from harness.jobs.models import Job
from harness.jobs.selectors import export_get, job_get
from harness.jobs.services import export_create
from harness.pages.web import can, page, person, show


def onnx_context(job: Job, checkpoint: str, *, may_change: bool, error: HarnessError | None = None) -> dict[str, Any]:
    """What jobs/onnx.html shows, of a checkpoint or (empty) of the final weights."""
    export = export_get(job, checkpoint)
    query = f"?{urlencode({'checkpoint': checkpoint})}" if checkpoint else ""
    return {
        "job": job, "checkpoint": checkpoint, "onnx_query": query, "export": export, "may_change": may_change,
        "error": error,
    }  # fmt: skip


@page("GET", "HEAD", "POST")
def job_onnx(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """How far it is, as a fragment; POST asks for it. `?checkpoint=` names other weights than the final ones."""
    user, checkpoint = person(request), request.GET.get("checkpoint", "")
    job = job_get(user=user, job_id=job_id)
    error: HarnessError | None = None
    if request.method == "POST":
        job_get(user=user, job_id=job_id, role=Role.MEMBER)
        try:
            export_create(user=user, job=job, checkpoint=checkpoint)
        except HarnessError as problem:
            error = problem
    may_change = can(user, job.project, Role.MEMBER)
    return show(request, "jobs/onnx.html", onnx_context(job, checkpoint, may_change=may_change, error=error))

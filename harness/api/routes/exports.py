"""Routes: the trained model as ONNX."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest, HttpResponseBase
from ninja import Query, Router, Status

from harness.api.auth import person
from harness.api.schemas.exports import ExportOut
from harness.api.throttles import PerMinute
from harness.jobs import selectors, services
from harness.jobs.models import Job, ModelExport
from harness.responses import body_response, file_response

router = Router()
PER_MINUTE_MAX = 30
CheckpointName = Annotated[
    str, Query(max_length=40, description="Name of a checkpoint that is kept; empty: the final weights.")
]


def _job(request: HttpRequest, job_id: str) -> Job:
    return selectors.job_get(user=person(request), job_id=job_id)


def _out(export: ModelExport | None) -> dict[str, Any]:
    if export is None:
        return {"state": "none"}
    return {name: getattr(export, name) for name in ExportOut.model_fields}


@router.post(
    "/{job_id}/onnx",
    response={202: ExportOut},
    summary="Export the model as ONNX",
    throttle=[PerMinute("exports", PER_MINUTE_MAX)],
)
def export_create(request: HttpRequest, job_id: str, checkpoint: CheckpointName = "") -> Status[Any]:
    """Have a node make it of the final weights, or of a checkpoint, and check it against PyTorch on real rows; once,
    then it is kept.

    Ask `GET` again until it is `done` or `failed`; one that failed is tried again by another POST.
    """
    made = services.export_create(user=person(request), job=_job(request, job_id), checkpoint=checkpoint)
    return Status(202, _out(made))


@router.get("/{job_id}/onnx", response=ExportOut, summary="The ONNX model: how far it is")
def export_get(request: HttpRequest, job_id: str, checkpoint: CheckpointName = "") -> dict[str, Any]:
    """Its state, and what it takes and gives."""
    return _out(selectors.export_get(_job(request, job_id), checkpoint))


@router.api_operation(["GET", "HEAD"], "/{job_id}/onnx.zip", summary="Download the ONNX model")
def export_zip(request: HttpRequest, job_id: str, checkpoint: CheckpointName = "") -> HttpResponseBase:
    """model.onnx, README.md, onnx.json, preprocess.json and, for programs that prepare rows as generated,
    predict_onnx.py, which needs numpy and onnxruntime alone. Honours `Range`."""
    job = _job(request, job_id)
    body, name = selectors.export_zip(job, checkpoint), selectors.export_name(job, checkpoint)
    return body_response(request, body, content_type="application/zip", filename=f"{name}.zip")


@router.api_operation(["GET", "HEAD"], "/{job_id}/model.onnx", summary="Download model.onnx alone")
def export_model(request: HttpRequest, job_id: str, checkpoint: CheckpointName = "") -> HttpResponseBase:
    """The model without what helps to use it; honours `Range`."""
    job = _job(request, job_id)
    name = f"{job.pk}-{checkpoint}" if checkpoint else job.pk
    return file_response(request, selectors.export_model_open(job, checkpoint), filename=f"{name}.onnx")

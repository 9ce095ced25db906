"""Routes: calibration of devices, its points as files, the accuracy of estimates."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from ninja import Query, Router, Status

from harness.api.auth import person
from harness.api.document import media
from harness.api.schemas.base import Items
from harness.api.schemas.calibration import (
    AccuracyOut,
    CalibrationIn,
    CalibrationOut,
    CalibrationsIn,
    CalibrationsOut,
    DeviceModelOut,
    FitOut,
    ImportIn,
    ImportOut,
    ShippedOut,
)
from harness.calibration import exchange, selectors
from harness.calibration.models import CalibrationRun, DeviceModelRow
from harness.calibration.reach import reach_words
from harness.measuring import services

Device = Annotated[str, Query(max_length=120, description="Its model name.")]
router = Router()
accuracy_router = Router()
_RUN = (
    *("id", "kind", "model_name", "state", "message", "budget_s", "used_s", "planned", "before", "measured"),
    *("refused", "created_at", "running_at", "ended_at"),
)


def _run_out(run: CalibrationRun) -> dict[str, Any]:
    progress = selectors.run_progress(run)
    return {
        **{name: getattr(run, name) for name in _RUN},
        "node": run.node_name,
        "progress": progress.share,
        "eta_s": progress.eta_s,
        "reach": reach_words(run),
        "fitting": run.fitting_since is not None,
        "started_by": run.started_by.username if run.started_by else None,
    }


def _model_out(row: DeviceModelRow) -> DeviceModelOut:
    report = row.report
    return DeviceModelOut(
        kind=row.kind,
        model_name=row.model_name,
        n_points=row.n_points,
        n_finished=row.n_finished,
        fitted_at=row.fitted_at,
        total=report.get("total"),
        families=report.get("families", {}),
        baselines=report.get("baselines", {}),
        coverage=report.get("coverage"),
        noise=report.get("noise"),
        memory=_fit_out(row, "memory"),
        power=_fit_out(row, "power"),
    )


def _fit_out(row: DeviceModelRow, figure: str) -> FitOut:
    names = ("total", "families", "baselines", "coverage")
    found = {name: value for name, value in row.report.get(figure, {}).items() if name in names}
    return FitOut(basis=row.model[figure]["basis"], **found)


def _shipped_out(use: selectors.ShippedUse) -> ShippedOut:
    told, model = use.shipped.provenance, use.shipped.model
    return ShippedOut(
        kind=model.kind,
        model_name=model.model_name,
        measured_on=told.measured_on,
        n_points=told.points,
        noise=model.noise,
        mape=model.errors.get("architectures_mape"),
        software=told.software,
        conditions=told.conditions,
        stands_for=use.stands_for,
    )


@router.get("", response=CalibrationsOut, summary="Calibrations and device models")
def calibrations(request: HttpRequest) -> Any:
    """The newest sweeps, open ones first, and what is known of each kind of device."""
    person(request)
    return {
        "runs": [_run_out(run) for run in selectors.run_list()],
        "models": [_model_out(row) for row in selectors.model_list()],
        "shipped": [_shipped_out(use) for use in selectors.shipped_uses()],
    }


@router.post("", response={201: CalibrationOut}, summary="Start a calibration")
def calibration_start(request: HttpRequest, body: CalibrationIn) -> Status[Any]:
    """Measure what the devices of one model on a node do. They take no new jobs until it ends. For admins."""
    run = services.calibration_start(user=person(request), **body.model_dump())
    return Status(201, _run_out(run))


@router.post("/all", response={201: Items[CalibrationOut]}, summary="Calibrate every model")
def calibration_start_all(request: HttpRequest, body: CalibrationsIn) -> Status[Any]:
    """Start a sweep of every model of a kind in the pool; those on one node follow each other. For admins."""
    runs = services.calibrations_start(user=person(request), **body.model_dump())
    return Status(201, {"items": [_run_out(run) for run in runs]})


@router.get("/points.{form}", summary="Measured points as a file", openapi_extra=media("text/csv", "application/json"))
def calibration_points(
    request: HttpRequest, form: str, kind: Annotated[str, Query(max_length=8)] = "", device: Device = ""
) -> HttpResponse:
    """Everything measured as `csv` or `json`; `kind` and `device` (its model name) narrow it."""
    person(request)
    text = exchange.points_export(form=form, kind=kind, model_name=device)
    headers = {"Content-Disposition": f'attachment; filename="calibration.{form}"'}
    return HttpResponse(text, content_type=exchange.FORMATS[form], headers=headers)


@router.post("/points", response=ImportOut, summary="Import measured points")
def calibration_import(request: HttpRequest, body: ImportIn) -> Any:
    """All of a file or nothing; the first wrong row is named. For admins."""
    return exchange.points_import(user=person(request), text=body.text)


@router.get("/{run_id}", response=CalibrationOut, summary="One calibration")
def calibration(request: HttpRequest, run_id: str) -> Any:
    """How far it is."""
    person(request)
    return _run_out(selectors.run_get(run_id))


@router.post("/{run_id}/stop", response=CalibrationOut, summary="Stop a calibration")
def calibration_stop(request: HttpRequest, run_id: str) -> Any:
    """End it now; what it has measured is kept. For admins."""
    return _run_out(services.calibration_stop(user=person(request), run_id=run_id))


@accuracy_router.get("", response=Items[AccuracyOut], summary="How good the estimates are")
def accuracy(request: HttpRequest) -> Any:
    """Forecasts against facts of all finished jobs that had been estimated; no job is named."""
    person(request)
    return {"items": [vars(item) for item in selectors.accuracy(selectors.finished_rows())]}

"""Fit the model of a kind of device to its points, and have finished jobs correct it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from django.db import transaction
from django.utils import timezone

from harness.broker import publish_pool, task_send_on_commit
from harness.calibration.exchange import points_fitted
from harness.calibration.models import OPEN, CalibrationRun, DeviceModelRow, FinishedJobRow, RanOutRow
from harness.calibration.report import report_of
from harness.calibration.shipped import prior_of, shipped_for
from harness.database import DATABASE_AWAY
from harness.measuring.links import link_of
from harness.measuring.taught import finished_of, ran_out_of
from harness.measuring.tried import Tried
from harness.plain import plain
from scheduler.estimation.calibration import LEAST_HELD_OUT
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import NodePace
from scheduler.estimation.fit import fit_device_model, in_one_precision
from scheduler.estimation.in_precision import measured_in
from scheduler.estimation.learning import corrected
from scheduler.estimation.prior import prior_for

_TRIES = 3
"""Nobody fits a model so often, and no jobs end so often, while jobs correct it."""
_log = logging.getLogger(__name__)
_tried = Tried()
"""Models that a new prior could not be given to."""


def model_fit(kind: str, model_name: str, run_id: str = "") -> DeviceModelRow | None:
    """Fit anew from all points of a kind of device and keep the model. None where there are no points.

    Jobs that have not started are then estimated by it, of a sweep that goes on at its end.
    """
    run = CalibrationRun.objects.filter(pk=run_id).first()
    measured = run.measured if run is not None else 0
    try:
        row = _fit(kind, model_name)
        if row is not None and (run is None or run.state not in OPEN):
            task_send_on_commit("control.estimates_renew")
        return row
    finally:
        if run_id:
            CalibrationRun.objects.filter(pk=run_id).update(fitting_since=None, fitted_points=measured)
            task_send_on_commit("control.calibrate")


def _fit(kind: str, model_name: str) -> DeviceModelRow | None:
    points = points_fitted(kind=kind, model_name=model_name)
    if not points:
        return None
    points = in_one_precision(points)
    precision = points[0].computed_in
    prior = measured_in(_with_link(prior_for(kind, model_name)), precision)
    fitted = fit_device_model(points, prior=prior)
    if fitted.n_points < LEAST_HELD_OUT and shipped_for(kind, model_name):
        # Too few for a model of their own: they bend the one that ships.
        prior = measured_in(_with_link(prior_of(kind, model_name)), precision)
        fitted = fit_device_model(points, prior=prior)
    taught = _taught(kind, model_name)
    finished, ran_out = finished_of(kind, model_name), ran_out_of(kind, model_name)
    before = DeviceModelRow.objects.filter(kind=kind, model_name=model_name).first()
    model = corrected(fitted, finished, ran_out, _paces(before))
    with transaction.atomic():
        row, _ = DeviceModelRow.objects.update_or_create(
            kind=kind,
            model_name=model_name,
            defaults={
                "fitted": plain(fitted.to_dict()),
                "model": plain(model.to_dict()),
                "n_points": len(points),
                "n_finished": model.n_finished,
                "report": plain(report_of(points, fitted, prior)),
                "fitted_at": timezone.now(),
            },
        )
        if _taught(kind, model_name) != taught:  # what a job taught meanwhile has just been overwritten
            task_send_on_commit("control.calibration_learn", [kind, model_name])
        publish_pool("calibration", {"kind": kind, "points": len(points)})
    _log.info("fitted %s %s to %d points", kind, model_name, len(points))
    return row


def _taught(kind: str, model_name: str) -> list[int | None]:
    """The newest rows to learn from: others tell that there are more. A row stays as it was written."""
    rows = (jobs.objects.filter(kind=kind, model_name=model_name) for jobs in (FinishedJobRow, RanOutRow))
    return [found.order_by("-pk").values_list("pk", flat=True).first() for found in rows]


def _paces(row: DeviceModelRow | None) -> Mapping[str, NodePace]:
    """That nodes had so far."""
    return DeviceModel.from_dict(row.model).paces if row else {}


def _with_link(prior: DeviceModel) -> DeviceModel:
    """What is assumed of a kind of device, with the link between its devices where that was timed."""
    row = DeviceModelRow.objects.filter(kind=prior.kind, model_name=prior.model_name).first()
    link = link_of(row) if row else None
    return replace(prior, link=link) if link else prior


def priors_refresh() -> int:
    """Have kinds of device without a model of their own rest on what ships now; return how many were due.

    What finished jobs taught is kept with the prior that they were held against: a new version may ship another, or an
    admin have it ignored.
    """
    rows = DeviceModelRow.objects.filter(model__n_points__lt=LEAST_HELD_OUT)
    kept = rows.values_list("kind", "model_name", "n_points", "model__transferred__digest")
    stale = [
        (kind, model_name, n_points)
        for kind, model_name, n_points, digest in kept
        if digest != (found.digest if (found := shipped_for(kind, model_name)) else None)
    ]
    resting = set(_tried.resting())
    due = [told for told in stale if f"{told[0]} {told[1]}" not in resting]
    for kind, model_name, n_points in due:
        try:
            _ = _fit(kind, model_name) if n_points else model_correct(kind, model_name)
        except DATABASE_AWAY:
            raise
        except Exception:
            # One that cannot be fitted must not keep the others, nor what control does after this, from being seen to.
            _log.exception("the model of %s %s stays as it is; it is tried again later", kind, model_name)
            _tried.failed(f"{kind} {model_name}")
    return len(due)


def model_correct(kind: str, model_name: str) -> DeviceModelRow | None:
    """Have finished jobs correct the model, without fitting it anew: where nothing was measured, what is assumed.

    None where there is neither a model nor a job to learn from, and where that changes again and again: then it is
    asked for anew.
    """
    for _ in range(_TRIES):
        taught = _taught(kind, model_name)
        finished, ran_out = finished_of(kind, model_name), ran_out_of(kind, model_name)
        row = DeviceModelRow.objects.filter(kind=kind, model_name=model_name).first()
        if row is None and not finished and not ran_out:
            return None
        fitted = DeviceModel.from_dict(row.fitted) if row and row.n_points else _with_link(prior_of(kind, model_name))
        model = corrected(fitted, finished, ran_out, _paces(row))
        told = {"model": plain(model.to_dict()), "n_finished": model.n_finished}
        made = {**told, "fitted": plain(fitted.to_dict()), "fitted_at": timezone.now()}
        with transaction.atomic():
            rows = DeviceModelRow.objects.select_for_update()
            now, is_new = rows.get_or_create(kind=kind, model_name=model_name, defaults=made)
            if is_new:
                return now
            if row is not None and now.fitted == row.fitted and _taught(kind, model_name) == taught:
                DeviceModelRow.objects.filter(pk=now.pk).update(**told)
                now.refresh_from_db()
                return now
    task_send_on_commit("control.calibration_learn", [kind, model_name])
    return None

"""Fit the model of a kind of device to its points, and report how well it does on what it has not seen."""

from __future__ import annotations

import logging
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
from django.db import transaction
from django.utils import timezone

from harness.broker import publish_pool, task_send_on_commit
from harness.calibration.exchange import points_of, points_read
from harness.calibration.known import finished_of, prior_of
from harness.calibration.links import link_of
from harness.calibration.models import CalibrationRun, DeviceModelRow
from harness.plain import plain
from scheduler.estimation.baselines import Fit, baselines
from scheduler.estimation.calibration import CalibrationPoint
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.fit import cross_validate, fit_device_model, folds_of, timed
from scheduler.estimation.intervals import LEVEL, quantiles
from scheduler.estimation.learning import corrected

FOLDS = 5
LEAST_POINTS = 10
"""Below so many points nothing is held out: the figures would say nothing."""
_log = logging.getLogger(__name__)


def model_fit(kind: str, model_name: str, run_id: str = "") -> DeviceModelRow | None:
    """Fit anew from all points of a kind of device and keep the model. None where there are no points."""
    measured = CalibrationRun.objects.filter(pk=run_id).values_list("measured", flat=True).first() or 0
    try:
        return _fit(kind, model_name)
    finally:
        if run_id:
            CalibrationRun.objects.filter(pk=run_id).update(fitting_since=None, fitted_points=measured)
            task_send_on_commit("control.calibrate")


def _fit(kind: str, model_name: str) -> DeviceModelRow | None:
    points = points_read(points_of(kind=kind, model_name=model_name))
    if not points:
        return None
    prior = _prior(kind, model_name)
    fitted = fit_device_model(points, prior=prior)
    finished = finished_of(kind, model_name)
    model = corrected(fitted, finished)
    with transaction.atomic():
        row, _ = DeviceModelRow.objects.update_or_create(
            kind=kind,
            model_name=model_name,
            defaults={
                "fitted": plain(fitted.to_dict()),
                "model": plain(model.to_dict()),
                "n_points": len(points),
                "n_finished": model.correction.n_jobs,
                "report": plain(report_of(points, fitted, prior)),
                "fitted_at": timezone.now(),
            },
        )
        publish_pool("calibration", {"kind": kind, "points": len(points)})
    _log.info("fitted %s %s to %d points", kind, model_name, len(points))
    return row


def _prior(kind: str, model_name: str) -> DeviceModel:
    """What is assumed of a kind of device, with the link between its devices where that was timed."""
    row, prior = DeviceModelRow.objects.filter(kind=kind, model_name=model_name).first(), prior_of(kind, model_name)
    link = link_of(row) if row else None
    return replace(prior, link=link) if link else prior


def model_correct(kind: str, model_name: str) -> DeviceModelRow | None:
    """Have finished jobs correct the model, without fitting it anew: where nothing was measured, what is assumed.

    None where there is neither a model nor a job to learn from.
    """
    finished = finished_of(kind, model_name)
    row = DeviceModelRow.objects.filter(kind=kind, model_name=model_name).first()
    if row is None and not finished:
        return None
    fitted = DeviceModel.from_dict(row.fitted) if row and row.n_points else _prior(kind, model_name)
    model = corrected(fitted, finished)
    told = {"model": plain(model.to_dict()), "n_finished": model.correction.n_jobs}
    made = {**told, "fitted": plain(fitted.to_dict()), "fitted_at": timezone.now()}
    found, _ = DeviceModelRow.objects.update_or_create(
        kind=kind, model_name=model_name, defaults=told, create_defaults=made
    )
    return found


def report_of(points: list[CalibrationPoint], fitted: DeviceModel, prior: DeviceModel) -> dict[str, Any]:
    """Errors on held-out architectures, by family, beside the usual methods, with the noise of the measurements.

    `points` holds `[family, measured_s, predicted_s, error, point_id, held]`, each predicted without its architecture.
    """
    single = [point for point in points if point.count == 1 and (point.kind != "cpu" or point.threads == 1)]
    if len(single) < LEAST_POINTS:
        return {}
    folds = folds_of([point.architecture for point in single], FOLDS)
    held_out = cross_validate(timed(single, prior.members[0]), folds)
    predicted_s = [point.typical_s * float(np.exp(-error)) for point, error in zip(single, held_out.error, strict=True)]
    errors = np.expm1(-held_out.error)
    scale = np.hypot(fitted.spread.floor, held_out.disagreement)
    inside = _inside(held_out.error / scale, folds)
    families = sorted({point.family for point in single})
    names = np.array([point.family for point in single])
    return {
        "points": [
            [point.family, point.typical_s, guess, float(error), point.point_id, held]
            for point, guess, error, held in zip(single, predicted_s, errors, inside, strict=True)
        ],
        "families": {family: figures(errors[names == family]) for family in families},
        "total": figures(errors),
        "coverage": float(np.mean(inside)),
        "baselines": {name: figures(_rival(fit, single, folds)) for name, fit in baselines().items()},
        "noise": float(median(point.noise for point in single)),
    }


def _rival(fit: Fit, points: list[CalibrationPoint], folds: Any) -> Any:
    """Relative errors of a usual method on the same held-out points."""
    measured_s = np.array([point.typical_s for point in points])
    predicted_s = np.zeros(len(points))
    for fold in np.unique(folds):
        out = np.flatnonzero(folds == fold)
        predict = fit([point for point, number in zip(points, folds, strict=True) if number != fold])
        predicted_s[out] = predict([points[number] for number in out])
    return predicted_s / measured_s - 1.0


def figures(errors: Any) -> dict[str, float]:
    """Mean, median and 90th percentile of absolute relative errors."""
    size = np.abs(np.asarray(errors, dtype=float))
    return {
        "n": len(size),
        "mape": float(size.mean()),
        "median": float(np.median(size)),
        "p90": float(np.quantile(size, 0.9)),
    }


def _inside(scores: Any, folds: Any) -> list[bool]:
    """Whether the 80 % interval holds each measurement; the interval comes from the other folds alone."""
    held = np.zeros(len(scores), dtype=bool)
    for fold in np.unique(folds):
        low, high = quantiles(scores[folds != fold], LEVEL)
        own = folds == fold
        held[own] = (low <= scores[own]) & (scores[own] <= high)
    return [bool(value) for value in held]

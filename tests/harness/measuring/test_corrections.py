"""Models corrected by finished jobs, also while they are fitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import QuerySet

from harness.calibration.exchange import row_of
from harness.calibration.known import device_model
from harness.calibration.models import CalibrationPointRow, DeviceModelRow
from harness.jobs.models import Job
from harness.measuring import fitting
from harness.measuring.fitting import model_correct, model_fit
from harness.measuring.learning import job_learn
from scheduler.estimation.calibration import CalibrationPoint
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import estimate
from scheduler.estimation.values import Basis
from tests.harness.measuring.jobs import KIND, NAME, WORK, allocation
from tests.scheduler.made_workloads import points


def test_slower_jobs_make_the_model_of_their_device_slower(ended: Callable[..., Job]) -> None:
    changed = [{**point.to_dict(), "kind": KIND, "model_name": NAME} for point in points(12)]
    CalibrationPointRow.objects.bulk_create(row_of(CalibrationPoint.from_dict(body)) for body in changed)
    model_fit(KIND, NAME)
    before = estimate(WORK, allocation(), device_model(KIND, NAME), memory_limit_bytes=8 << 30).step_s.mid
    job_learn(ended(1.5 * before).pk)
    row = model_correct(KIND, NAME)
    assert row is not None and row.n_finished == 1
    after = estimate(WORK, allocation(), device_model(KIND, NAME), memory_limit_bytes=8 << 30).step_s.mid
    assert before < after < 1.5 * before
    assert row.fitted["correction"]["n_jobs"] == 0


def test_a_fit_that_ends_while_jobs_correct_the_one_before_is_not_undone(
    ended: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = [{**point.to_dict(), "kind": KIND, "model_name": NAME} for point in points(24)]
    rows = [row_of(CalibrationPoint.from_dict(body)) for body in bodies]
    CalibrationPointRow.objects.bulk_create(rows[:12])
    model_fit(KIND, NAME)
    job_learn(ended(0.02).pk)
    whole = fitting.corrected

    def slow(*given: Any) -> DeviceModel:
        monkeypatch.setattr(fitting, "corrected", whole)
        CalibrationPointRow.objects.bulk_create(rows[12:])
        model_fit(KIND, NAME)
        return whole(*given)

    monkeypatch.setattr(fitting, "corrected", slow)
    model_correct(KIND, NAME)
    row = DeviceModelRow.objects.get()
    assert (row.fitted["n_points"], row.model["n_points"]) == (24, 24)


def test_what_a_job_teaches_while_a_model_is_fitted_is_taught_again(
    ended: Callable[..., Job],
    monkeypatch: pytest.MonkeyPatch,
    tasks_sent: list[Any],
    django_capture_on_commit_callbacks: Any,
) -> None:
    bodies = [{**point.to_dict(), "kind": KIND, "model_name": NAME} for point in points(12)]
    CalibrationPointRow.objects.bulk_create(row_of(CalibrationPoint.from_dict(body)) for body in bodies)
    model_fit(KIND, NAME)
    whole, learn = fitting.corrected, ("control.calibration_learn", [KIND, NAME], "control")

    def slow(*given: Any) -> DeviceModel:
        monkeypatch.setattr(fitting, "corrected", whole)
        job_learn(ended(0.02).pk)
        model_correct(KIND, NAME)
        return whole(*given)

    monkeypatch.setattr(fitting, "corrected", slow)
    with django_capture_on_commit_callbacks(execute=True):
        model_fit(KIND, NAME)
    assert tasks_sent.count(learn) == 2, "one of the job, one of the fit"
    tasks_sent.clear()
    with django_capture_on_commit_callbacks(execute=True):
        model_fit(KIND, NAME)
    assert learn not in tasks_sent and DeviceModelRow.objects.get().n_finished == 1


def test_of_two_corrections_the_one_that_knows_fewer_jobs_does_not_stay(
    ended: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    job_learn(ended(0.02).pk)
    model_correct(KIND, NAME)
    whole = fitting.corrected

    def slow(*given: Any) -> DeviceModel:
        monkeypatch.setattr(fitting, "corrected", whole)
        job_learn(ended(0.02).pk)
        model_correct(KIND, NAME)
        return whole(*given)

    monkeypatch.setattr(fitting, "corrected", slow)
    model_correct(KIND, NAME)
    assert DeviceModelRow.objects.get().n_finished == 2


def test_a_fit_that_ends_while_jobs_correct_what_is_assumed_is_not_undone(
    ended: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    job_learn(ended(0.02).pk)
    bodies = [{**point.to_dict(), "kind": KIND, "model_name": NAME} for point in points(12)]
    get = QuerySet.get

    def late(rows: Any, *given: Any, **named: Any) -> Any:
        """The fit is kept just when the correction has seen that there is no row."""
        try:
            return get(rows, *given, **named)
        except DeviceModelRow.DoesNotExist:
            monkeypatch.setattr(QuerySet, "get", get)
            CalibrationPointRow.objects.bulk_create(row_of(CalibrationPoint.from_dict(body)) for body in bodies)
            model_fit(KIND, NAME)
            raise

    monkeypatch.setattr(QuerySet, "get", late)
    model_correct(KIND, NAME)
    row = DeviceModelRow.objects.get()
    assert (row.fitted["n_points"], row.model["n_points"], row.n_finished) == (12, 12, 1)


def test_jobs_correct_what_is_assumed_of_devices_that_nobody_measured(ended: Callable[..., Job]) -> None:
    before = estimate(WORK, allocation(), device_model(KIND, NAME)).step_s.mid
    job_learn(ended(1.5 * before).pk)
    row = model_correct(KIND, NAME)
    assert row is not None and (row.n_points, row.n_finished) == (0, 1)
    after = estimate(WORK, allocation(), device_model(KIND, NAME))
    assert before < after.step_s.mid < 1.5 * before
    assert after.time_basis is Basis.ASSUMED and "1 finished job" in after.note


def test_a_job_that_is_not_believed_is_not_counted_as_learnt_from(ended: Callable[..., Job]) -> None:
    before = estimate(WORK, allocation(), device_model(KIND, NAME)).step_s.mid
    job_learn(ended(50.0 * before).pk)
    row = model_correct(KIND, NAME)
    assert row is not None and row.n_finished == 0
    assert row.model["correction"] == {"factor": 1.0, "n_jobs": 0, "n_left_out": 1, "n_other": 0}

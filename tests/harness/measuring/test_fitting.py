"""Models fitted to points, and what is known without any."""

from __future__ import annotations

from typing import Any

import pytest

from harness.calibration.exchange import row_of
from harness.calibration.known import device_model, device_models
from harness.calibration.models import CalibrationPointRow, CalibrationRun, DeviceModelRow
from harness.measuring.fitting import model_correct, model_fit
from harness.pool.services import pool_setting_get
from scheduler.estimation.estimate import estimate
from scheduler.estimation.prior import prior_for
from scheduler.estimation.values import Basis
from scheduler.kinds import declared_name
from tests.scheduler.made_workloads import KIND, NAME, allocation, points, true_step_s, workload

pytestmark = pytest.mark.django_db


def measure(count: int) -> None:
    CalibrationPointRow.objects.bulk_create(row_of(point) for point in points(count))


def test_without_points_the_prior_stands_and_says_so() -> None:
    assert model_fit(KIND, NAME) is None
    model = device_model(KIND, NAME)
    assert model.basis is Basis.ASSUMED and model.n_points == 0
    found = estimate(workload(), allocation(), model, memory_limit_bytes=8 << 30)
    assert found.time_basis is Basis.ASSUMED and found.step_s.high > 3 * found.step_s.low


def test_where_nothing_ships_a_few_points_are_fitted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.measuring import fitting

    made: list[Any] = []
    fit = fitting.fit_device_model
    monkeypatch.setattr(fitting, "fit_device_model", lambda *args, **more: made.append(fit(*args, **more)) or made[-1])
    measure(8)
    row = model_fit(KIND, NAME)
    assert row is not None and len(made) == 1


def test_devices_that_differ_in_their_declared_slowdown_alone_share_what_is_read(
    django_assert_num_queries: Any,
) -> None:
    measure(30)
    model_fit(KIND, NAME)
    slow, other = declared_name(NAME, 2.0), "Never measured"
    pool_setting_get()
    with django_assert_num_queries(4):  # models, setting, GPUs whose sums go by their hosts, what was read idle
        found = device_models([(KIND, NAME), (KIND, slow), ("cuda", NAME), (KIND, other)])
    assert found[KIND, slow].slowdown == 2.0 and found[KIND, slow].members is found[KIND, NAME].members
    assert found["cuda", NAME] == prior_for("cuda", NAME) and found[KIND, other] == prior_for(KIND, other)
    assert {key: device_model(*key) for key in found} == found


def test_a_fit_is_kept_and_used_and_judged_on_what_it_has_not_seen() -> None:
    measure(30)
    row = model_fit(KIND, NAME)
    assert row is not None and row.n_points == 30
    model = device_model(KIND, NAME)
    assert model.basis is Basis.MODELLED
    new = workload(layers=3, filters=20, size=20, batch=40)
    found = estimate(new, allocation(rows=(40,)), model, memory_limit_bytes=8 << 30)
    assert found.step_s.low < true_step_s(new) < found.step_s.high
    report = row.report
    assert len(report["points"]) == 30
    assert report["total"]["mape"] < report["baselines"]["linear regression on knobs"]["mape"]
    assert set(report["families"]) == {"made"} and 0.0 <= report["coverage"] <= 1.0


def test_few_points_are_fitted_but_not_judged() -> None:
    measure(7)
    row = model_fit(KIND, NAME)
    assert row is not None and row.report == {}


def test_the_sweep_goes_on_after_its_fit_even_where_the_fit_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.utils import timezone

    from harness.measuring import fitting

    run = CalibrationRun.objects.create(
        node_name="node-1", kind=KIND, model_name=NAME, budget_s=60.0, measured=7, fitting_since=timezone.now()
    )
    measure(7)

    def broken(*_: Any, **__: Any) -> None:
        raise ValueError("no such luck")

    monkeypatch.setattr(fitting, "fit_device_model", broken)
    with pytest.raises(ValueError, match="no such luck"):
        model_fit(KIND, NAME, run.pk)
    run.refresh_from_db()
    assert run.fitting_since is None and run.fitted_points == 7
    assert not DeviceModelRow.objects.exists()


def test_there_is_nothing_to_correct_without_points_and_without_jobs() -> None:
    assert model_correct(KIND, NAME) is None
    assert not DeviceModelRow.objects.exists()

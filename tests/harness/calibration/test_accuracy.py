"""How good estimates were: what is counted of finished jobs, and what their ranges are held to."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from harness.calibration import selectors
from harness.calibration.models import FinishedJobRow
from scheduler.estimation.fit_memory import PEAK_LEVEL
from scheduler.estimation.intervals import LEVEL
from scheduler.estimation.peaks import peak_interval
from scheduler.estimation.prior import prior_for
from tests.harness.measuring.jobs import KIND, NAME, WORK


def finished(actual_s: float, *, low: float = 8.0, mid: float = 10.0, high: float = 12.0, **more: Any) -> None:
    interval = {"low": low, "mid": mid, "high": high, "level": 0.8}
    FinishedJobRow.objects.create(
        kind=KIND, family="mlp", predicted={"run_s": interval}, run_s=actual_s, finished_at=timezone.now(), **more
    )


@pytest.mark.django_db
def test_accuracy_counts_every_estimated_job() -> None:
    for actual_s in (10.0, 8.0, 20.0):
        finished(actual_s)
    FinishedJobRow.objects.create(kind=KIND, run_s=5.0, finished_at=timezone.now())
    by_measure = {item.measure: item for item in selectors.accuracy(selectors.finished_rows())}
    run = by_measure["run_s"]
    assert run.jobs == 3
    assert run.mape == pytest.approx((0.0 + 0.25 + 0.5) / 3)
    assert run.bias == pytest.approx((0.0 + 0.25 - 0.5) / 3)
    assert run.coverage == pytest.approx(2 / 3)
    assert by_measure["energy_j"].jobs == 0 and by_measure["energy_j"].mape is None


@pytest.mark.django_db
def test_the_range_of_a_peak_is_held_to_what_it_is_meant_to_hold(client: Any, people: Any) -> None:
    peak = asdict(peak_interval(prior_for(KIND, NAME).memory, WORK))
    FinishedJobRow.objects.create(
        kind=KIND, predicted={"peak_bytes": peak}, peak_bytes=int(peak["mid"]), finished_at=timezone.now()
    )
    finished(10.0)
    by_measure = {item.measure: item for item in selectors.accuracy(selectors.finished_rows())}
    assert (by_measure["peak_bytes"].coverage, by_measure["peak_bytes"].level) == (1.0, PEAK_LEVEL)
    assert (by_measure["run_s"].level, by_measure["energy_j"].level) == (LEVEL, None)
    client.force_login(people.viewer)
    assert re.search(r"100(\.0)? %\s+\(88(\.0)? %\)", client.get(reverse("accuracy")).content.decode())


@pytest.mark.django_db
def test_energy_that_no_meter_told_is_counted_apart() -> None:
    interval = {"low": 8.0, "mid": 10.0, "high": 12.0, "level": 0.8}
    for basis in ("measured", "assumed", "assumed"):
        FinishedJobRow.objects.create(
            kind=KIND, predicted={"energy_j": interval}, energy_j=9.0, energy_basis=basis, finished_at=timezone.now()
        )
    by_measure = {item.measure: item for item in selectors.accuracy(selectors.finished_rows())}
    assert (by_measure["energy_j"].jobs, by_measure["energy_j"].measured) == (3, 1)

"""A run and its estimate count energy alike, and measured where it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from django.utils import timezone

from harness.calibration.models import DeviceModelRow, FinishedJobRow
from harness.jobs.models import Job
from harness.measuring.learning import job_learn
from scheduler.estimation.device_parts import PowerModel
from scheduler.estimation.prior import prior_for
from scheduler.estimation.values import Basis
from tests.harness.measuring.jobs import KIND, NAME


def calibrate(busy_w: float) -> None:
    """Have the power of such cores measured."""
    power = PowerModel(idle_w=1.0, busy_w=busy_w, basis=Basis.MEASURED)
    body = replace(prior_for(KIND, NAME), power=power).to_dict()
    DeviceModelRow.objects.create(kind=KIND, model_name=NAME, fitted=body, model=body, fitted_at=timezone.now())


def test_a_run_and_its_estimate_count_with_the_same_power(ended: Callable[..., Job]) -> None:
    calibrate(busy_w=3.25)
    job = ended(0.02)
    use = job.uses.get()
    told = job.estimate.estimate
    span_s = (use.ended_at - use.started_at).total_seconds()
    assert use.energy_j / span_s == pytest.approx(told["power_w"]) == pytest.approx(3.25)
    job_learn(job.pk)
    assert FinishedJobRow.objects.get().energy_basis == "modelled"


def test_energy_that_the_packages_of_the_host_told_is_measured(ended: Callable[..., Job]) -> None:
    from harness.jobs.models import ResourceSample

    def metered(job: Job) -> None:
        host = {"cores": 4, "cpu_percent": 25.0, "packages_w": 16.0}
        data = {"ranks": [{"rank": 0, "cpu_percent": 100.0}], "host": host, "gpus": []}
        ResourceSample.objects.create(job=job, token=job.token, time_s=1.0, data=data)

    calibrate(busy_w=3.25)
    job = ended(0.02, before_end=metered)
    use = job.uses.get()
    assert use.energy_j / (use.ended_at - use.started_at).total_seconds() == pytest.approx(1.0 + 12.0)
    job_learn(job.pk)
    assert FinishedJobRow.objects.get().energy_basis == "measured"

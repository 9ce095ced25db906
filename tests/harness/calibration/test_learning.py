"""What finished jobs cost, beside what was foretold, and what is learnt from it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone

from harness.calibration import fitting, selectors
from harness.calibration.exchange import row_of
from harness.calibration.fitting import model_correct, model_fit
from harness.calibration.known import device_model, finished_of
from harness.calibration.learning import _positive, job_learn, jobs_learn
from harness.calibration.models import CalibrationPointRow, DeviceModelRow, FinishedJobRow
from harness.jobs.models import Job, JobAttempt, JobEvent, MetricPoint
from harness.pool.models import Node, NodeState
from scheduler.estimation.calibration import CalibrationPoint
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.estimate import estimate
from scheduler.estimation.fit_memory import PEAK_LEVEL
from scheduler.estimation.intervals import LEVEL
from scheduler.estimation.peaks import peak_interval
from scheduler.estimation.prior import prior_for
from scheduler.estimation.values import Basis
from scheduler.kinds import declared_name
from tests.harness.calibration.jobs import KIND, NAME, WORK, allocation, tell
from tests.scheduler.made_workloads import points
from worker.states import JobState


def test_forecast_and_fact_are_kept_once(ended: Callable[..., Job]) -> None:
    job = ended(0.02)
    assert job_learn(job.pk) and not job_learn(job.pk)
    row = FinishedJobRow.objects.get()
    assert (row.kind, row.model_name, row.count, row.mode) == (KIND, NAME, 1, "single")
    assert row.step_s == pytest.approx(0.02)
    assert row.run_s == pytest.approx(60.0, abs=5.0)
    assert row.predicted["step_s"]["mid"] > 0
    assert row.energy_j and row.energy_j > 0 and row.energy_basis == "assumed"
    assert row.run_comparable


@pytest.mark.parametrize("mark", ["program_edited", "program_own"])
def test_a_program_that_a_person_wrote_teaches_the_model_nothing(ended: Callable[..., Job], mark: str) -> None:
    job = ended(0.02)
    Job.objects.filter(pk=job.pk).update(**{mark: True})
    assert job_learn(job.pk)
    row = FinishedJobRow.objects.get()
    assert row.predicted["step_s"]["mid"] > 0 and row.step_s == pytest.approx(0.02)
    assert not finished_of(KIND, NAME)


def test_a_device_that_was_declared_slower_teaches_its_kind_nothing_but_is_compared(
    ended: Callable[..., Job],
) -> None:
    job = ended(0.06)
    attempt = job.attempts.get()
    slow = declared_name(NAME, 3.0)
    kept = job.estimate
    kept.estimate["allocation"]["model_name"] = slow
    kept.save()
    for option, ranks in (({"model_name": slow}, [{}]), ({}, [{"slowdown": 3.0}])):
        FinishedJobRow.objects.all().delete()
        JobAttempt.objects.filter(pk=attempt.pk).update(option=option, plan={**attempt.plan, "ranks": ranks})
        assert job_learn(job.pk)
        row = FinishedJobRow.objects.get()
        assert row.model_name == NAME and row.predicted["step_s"]["mid"] > 0
        assert not row.workload and not finished_of(KIND, NAME)


def test_memory_is_what_the_run_told_and_nonsense_is_nothing(ended: Callable[..., Job]) -> None:
    for told, kept in ((123_000_000, 123_000_000), ("much", None), (-5, None)):
        job = ended(0.02)
        tell(job, peak_bytes=told)
        job_learn(job.pk)
        assert FinishedJobRow.objects.get(job=job).peak_bytes == kept


def test_the_reading_of_rows_is_kept_apart_from_the_start_unless_it_cannot_be(ended: Callable[..., Job]) -> None:
    for told, kept in ((1.5, 1.5), (9.0, None), ("long", None)):
        job = ended(0.02)
        attempt = job.attempts.get()
        JobEvent.objects.create(
            job=job, kind="state", token=attempt.number, new_state=JobState.RUNNING, data={"start_s": 3.0}
        )
        tell(job, load_s=told)
        job_learn(job.pk)
        row = FinishedJobRow.objects.get(job=job)
        assert (row.start_s, row.load_s) == (3.0, kept)
    assert [job.load_s for job in finished_of(KIND, NAME)] == [1.5, None, None]


def test_the_beat_finds_what_nobody_told(ended: Callable[..., Job]) -> None:
    job = ended(0.02)
    assert jobs_learn() == 1 and jobs_learn() == 0
    Job.objects.filter(pk=job.pk).delete()
    assert FinishedJobRow.objects.get().job_id is None


def test_a_job_that_nobody_estimated_teaches_nothing_and_counts_nowhere(ended: Callable[..., Job]) -> None:
    job_learn(ended(0.02, estimated=False).pk)
    assert finished_of(KIND, NAME) == []
    assert selectors.finished_rows() == []


def test_the_estimate_of_another_width_is_no_forecast(ended: Callable[..., Job]) -> None:
    job = ended(0.02)
    body = asdict(allocation())
    row = job.estimate
    row.estimate = {**row.estimate, "allocation": {**body, "count": 2, "mode": "sync"}}
    row.save()
    job_learn(job.pk)
    assert FinishedJobRow.objects.get().predicted == {}


def test_a_resumed_job_is_not_compared_by_its_run(ended: Callable[..., Job]) -> None:
    job = ended(0.02)
    JobAttempt.objects.create(job=job, number=99, plan={"ranks": []}, ended_at=timezone.now(), outcome="lost")
    tell(job, samples_per_s=32 / 0.02)
    job_learn(job.pk)
    row = FinishedJobRow.objects.get()
    assert not row.run_comparable
    assert selectors.compared(row, "run_s") is None and selectors.compared(row, "step_s") is not None


def test_what_was_spent_before_a_pause_or_a_fault_is_part_of_the_cost(ended: Callable[..., Job]) -> None:
    job = ended(0.02)
    attempt, use = job.attempts.get(), job.uses.get()
    hour = timedelta(hours=1)
    JobAttempt.objects.filter(pk=attempt.pk).update(number=2)
    JobAttempt.objects.create(
        job=job, number=1, plan=attempt.plan, started_at=timezone.now() - 3 * hour, ended_at=timezone.now() - 2 * hour
    )
    use.token = 2
    use.save()
    first_j = use.energy_j
    use.pk, use.token, use.energy_j = None, 1, 7000.0
    use.save()
    job_learn(job.pk)
    row = FinishedJobRow.objects.get()
    assert row.run_s == pytest.approx(3660.0, abs=5.0)
    assert row.energy_j == pytest.approx(first_j + 7000.0)
    assert not row.run_comparable


@pytest.mark.parametrize("in_one_attempt", [False, True])
def test_rates_of_other_devices_and_ranks_before_a_pause_are_no_pace_of_the_run(
    ended: Callable[..., Job], in_one_attempt: bool
) -> None:
    job = ended(0.02)
    attempt = job.attempts.get()
    # It began on two slower devices, which have told their rates, too.
    for key in ("rank0/samples_per_s", "rank1/samples_per_s"):
        MetricPoint.objects.bulk_create(
            MetricPoint(job=job, key=key, step=step, epoch=0.1, value=400.0, time_s=0.5) for step in range(100, 120)
        )
    if in_one_attempt:
        JobAttempt.objects.filter(pk=attempt.pk).update(width={"slots": [0]})
    else:
        JobAttempt.objects.filter(pk=attempt.pk).update(number=2)
        job.uses.update(token=2)
        JobAttempt.objects.create(job=job, number=1, plan=attempt.plan, ended_at=timezone.now(), outcome="paused")
    tell(job, samples_per_s=32 / 0.02)
    assert job_learn(job.pk)
    assert FinishedJobRow.objects.get(job=job).step_s == pytest.approx(0.02)


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
    assert row.model["correction"] == {"factor": 1.0, "n_jobs": 0, "n_left_out": 1}


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


@pytest.mark.parametrize("rate", [5e-324, 1e-300, 1e308])
def test_rates_that_no_run_has_are_not_kept(ended: Callable[..., Job], rate: float) -> None:
    job = ended(0.1)
    MetricPoint.objects.filter(job=job).update(value=rate)
    assert job_learn(job.pk)
    row = FinishedJobRow.objects.get(job=job)
    assert row.step_s is None
    assert all(math.isfinite(item.mape or 0.0) for item in selectors.accuracy(selectors.finished_rows()))


@pytest.mark.parametrize("told", [math.inf, math.nan, -1, 0, True, "1", 10**400, None])
def test_figures_of_a_run_that_are_none_are_left_out(told: Any) -> None:
    assert _positive(told) is None


def test_a_job_that_ran_on_one_node_teaches_how_runs_start_there(ended: Callable[..., Job]) -> None:
    job = ended(0.02)
    job_learn(job.pk)
    (finished,) = finished_of(KIND, NAME)
    assert finished.node == "node-1"


def test_slow_starts_count_while_their_node_takes_work(node_make: Callable[..., Any]) -> None:
    node_make("node-1")
    node_make("node-2")
    Node.objects.filter(name="node-2").update(state=NodeState.DRAIN)
    prior = prior_for(KIND, NAME)
    slow = replace(prior.overheads, slow_starts={"node-1": 2.0, "node-2": 3.0, "gone": 4.0})
    body = replace(prior, overheads=slow).to_dict()
    DeviceModelRow.objects.create(kind=KIND, model_name=NAME, fitted=body, model=body, fitted_at=timezone.now())
    assert device_model(KIND, NAME).overheads.slow_starts == {"node-1": 2.0}

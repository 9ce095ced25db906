"""What finished jobs cost, beside what was foretold, and what is learnt from it."""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.calibration import selectors
from harness.calibration.known import device_model
from harness.calibration.models import DeviceModelRow, FinishedJobRow
from harness.jobs.models import Job, JobAttempt, JobEvent, MetricPoint
from harness.measuring.learning import _positive, job_learn, jobs_learn
from harness.measuring.taught import finished_of
from harness.pages.figures import NONE
from harness.pool.models import Node, NodeState
from scheduler.estimation.prior import prior_for
from scheduler.kinds import declared_name
from tests.harness.measuring.jobs import KIND, NAME, allocation, tell
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


def test_the_time_in_which_results_return_is_none_of_the_run(ended: Callable[..., Job]) -> None:
    job = ended(0.02)
    attempt = job.attempts.get()
    assert attempt.ended_at is not None
    late = attempt.ended_at + timedelta(hours=60)
    job.attempts.update(released_at=attempt.ended_at, ended_at=late)
    assert job_learn(job.pk)
    assert FinishedJobRow.objects.get().run_s == pytest.approx(60.0, abs=5.0)


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


@pytest.mark.parametrize(("late_s", "is_kept"), [(2, True), (60, False)])
def test_a_start_in_which_one_node_fetched_data_while_the_others_waited_tells_of_no_start(
    ended: Callable[..., Job], late_s: float, is_kept: bool
) -> None:
    job = ended(0.02)
    about = {"job": job, "token": job.attempts.get().number}
    first, last, _ = (JobEvent.objects.create(kind="attempt", message="Started on a node", **about) for _ in range(3))
    JobEvent.objects.filter(pk=last.pk).update(at=first.at + timedelta(seconds=late_s))
    JobEvent.objects.create(kind="state", new_state=JobState.RUNNING, data={"start_s": 3.0}, **about)
    # a node with which the run grew later on kept nobody waiting
    grown = JobEvent.objects.create(kind="attempt", message="Started on a node", **about)
    JobEvent.objects.filter(pk=grown.pk).update(at=first.at + timedelta(hours=1))
    job_learn(job.pk)
    row = FinishedJobRow.objects.get(job=job)
    assert row.start_s == (3.0 if is_kept else None)
    assert row.step_s and row.run_s


def test_the_beat_finds_what_nobody_told(ended: Callable[..., Job]) -> None:
    job = ended(0.02)
    assert jobs_learn() == 1 and jobs_learn() == 0
    Job.objects.filter(pk=job.pk).delete()
    assert FinishedJobRow.objects.get().job_id is None


def test_a_run_whose_results_a_disk_does_not_give_now_is_learnt_from_later(
    ended: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ended(0.02)
    with monkeypatch.context() as patch:
        patch.setattr("harness.store.read_beneath", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
        assert jobs_learn() == 0 and not FinishedJobRow.objects.exists()
        assert not job_learn(job.pk)  # nor does the task that its end sends raise
    assert job_learn(job.pk) and FinishedJobRow.objects.get().step_s


def test_a_run_whose_results_a_disk_does_not_give_for_a_day_keeps_what_it_cost_without_them(
    ended: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ended(0.02)
    Job.objects.filter(pk=job.pk).update(finished_at=timezone.now() - timedelta(days=1, minutes=1))
    monkeypatch.setattr("harness.store.read_beneath", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
    assert jobs_learn() == 1
    row = FinishedJobRow.objects.get()
    assert row.run_s and row.peak_bytes is None


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


def test_a_job_that_stopped_early_is_held_against_the_epochs_that_it_made_and_teaches_by_them(
    ended: Callable[..., Job], client: Client, people: SimpleNamespace
) -> None:
    job = ended(0.02)
    whole = job.estimate.estimate
    tell(job, epochs=1)
    Job.objects.filter(pk=job.pk).update(epoch=1)
    job_learn(job.pk)
    row = FinishedJobRow.objects.get()
    assert row.run_comparable
    told = row.predicted["run_s"]
    assert told["mid"] == pytest.approx(whole["run_s"]["mid"] - whole["epoch_s"])
    assert told["low"] < told["mid"] < told["high"] < whole["run_s"]["high"]
    assert row.predicted["energy_j"]["mid"] == pytest.approx(told["mid"] * whole["power_w"])
    assert row.predicted["step_s"] == whole["step_s"]
    assert [(one.workload.epochs, one.run_s) for one in finished_of(KIND, NAME)] == [(1, row.run_s)]
    client.force_login(people.owner)
    page = " ".join(client.get(reverse("job_tab", args=[job.pk, "cost"])).content.decode().split())
    assert (
        "It stopped early, after 1 of 2 epochs: time and energy are held against what these epochs were to take" in page
    )
    item = selectors.compared(row, "run_s")
    assert item is not None and f"{100 * item.error:+.1f} %" in page


def test_epochs_that_a_person_wrote_into_spec_yaml_are_those_that_were_planned(ended: Callable[..., Job]) -> None:
    job = ended(0.02)
    tell(job, epochs=3)
    Job.objects.filter(pk=job.pk).update(epochs=4, epoch=3)
    whole = job.estimate.estimate
    job_learn(job.pk)
    row = FinishedJobRow.objects.get()
    assert row.predicted["run_s"]["mid"] == pytest.approx(whole["run_s"]["mid"] - whole["epoch_s"])
    assert [one.workload.epochs for one in finished_of(KIND, NAME)] == [3]


def test_an_early_stop_is_not_held_against_an_estimate_that_does_not_say_what_an_epoch_takes(
    ended: Callable[..., Job], client: Client, people: SimpleNamespace
) -> None:
    job = ended(0.02)
    kept = job.estimate
    kept.estimate.pop("epoch_s")
    kept.save()
    tell(job, epochs=1)
    Job.objects.filter(pk=job.pk).update(epoch=1)
    job_learn(job.pk)
    row = FinishedJobRow.objects.get()
    assert not row.run_comparable and row.predicted["run_s"] == kept.estimate["run_s"]
    assert [one.run_s for one in finished_of(KIND, NAME)] == [None]
    client.force_login(people.owner)
    page = " ".join(client.get(reverse("job_tab", args=[job.pk, "cost"])).content.decode().split())
    assert "It stopped early, after 1 of 2 epochs, and the estimate is of all of them" in page


def test_the_page_of_a_resumed_job_holds_its_steps_against_the_estimate_and_not_its_run(
    ended: Callable[..., Job], client: Client, people: SimpleNamespace
) -> None:
    job = ended(0.02)
    JobAttempt.objects.create(job=job, number=99, plan={"ranks": []}, ended_at=timezone.now(), outcome="lost")
    tell(job, samples_per_s=32 / 0.02)
    job_learn(job.pk)
    client.force_login(people.owner)
    page = " ".join(client.get(reverse("job_tab", args=[job.pk, "cost"])).content.decode().split())
    assert "It took 2 attempts" in page
    errors = [line.strip() for line in re.findall(r'data-label="Off by">([^<]*)', page)]
    assert errors[0].endswith("%") and errors[1] == errors[3] == NONE


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

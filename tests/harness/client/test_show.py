"""`dlh show` of a job that has ended."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from harness.client.cli import runs
from harness.client.cli.output import when
from harness.jobs import outlook
from harness.jobs.control.awaited import Awaited
from harness.jobs.models import Job
from harness.jobs.readers import Standstill
from harness.pool.models import Node
from harness.pool.reservations import reservation_hold
from tests.harness.client.conftest import Dlh

pytestmark = pytest.mark.usefixtures("portal")


@pytest.mark.parametrize(("after_s", "told"), [(12, "(finished 12 s late)"), (-240, "(finished 4 min before)")])
def test_show_tells_by_how_much_a_deadline_was_kept(dlh: Dlh, ended_job: Any, after_s: float, told: str) -> None:
    by = timezone.now()
    Job.objects.filter(pk=ended_job.pk).update(deadline_at=by, finished_at=by + timedelta(seconds=after_s))
    assert told in " ".join(dlh("show", ended_job.pk).out.split())


def test_a_job_that_stopped_early_is_done(dlh: Dlh, ended_job: Any) -> None:
    Job.objects.filter(pk=ended_job.pk).update(epoch=7.0, epochs=60, step=637, steps_total=5460)
    told = " ".join(dlh("show", ended_job.pk).out.split())
    assert "Progress 100 % (stopped early, after epoch 7 of 60; 637/5460 steps)" in told
    assert "100 %" in dlh("jobs").out
    Job.objects.filter(pk=ended_job.pk).update(state="failed")
    assert "Progress 12 % (637/5460 steps)" in " ".join(dlh("show", ended_job.pk).out.split())


def test_what_was_said_of_a_promise_while_a_job_waited_does_not_stand_once_it_has_ended(
    dlh: Dlh, ended_job: Any
) -> None:
    promise = {"state": "no_estimate", "text": "It will run as soon as possible."}
    now = timezone.now()
    Job.objects.filter(pk=ended_job.pk).update(deadline_at=now, finished_at=now, promised_at=None, promise=promise)
    told = " ".join(dlh("show", ended_job.pk).out.split())
    assert "Promised no" in told and "as soon as possible" not in told


def test_what_is_left_of_a_run_ends_at_its_expected_finish(dlh: Dlh, job: Any) -> None:
    finish = timezone.now() + timedelta(hours=2, seconds=20)
    times = {"expected_low_at": finish - timedelta(hours=1), "expected_high_at": finish + timedelta(hours=1)}
    Job.objects.filter(pk=job.pk).update(state="running", eta_s=61.0, expected_finish_at=finish, **times)
    body = json.loads(dlh("show", job.pk, "--json").out)
    told = datetime.fromisoformat(body["expected_finish_at"]) - timezone.now()
    assert told.total_seconds() == pytest.approx(body["eta_s"], abs=10.0)
    words = " ".join(dlh("show", job.pk).out.split())
    assert "Left 2 h" in words and f"Expected finish {when(body['expected_finish_at'])} (" in words


def test_speeds_of_a_job_that_does_not_run_are_told_as_those_of_when_it_ran(dlh: Dlh, job: Any) -> None:
    values = {"val/accuracy": 0.75, "rank0/samples_per_s": 812.0}
    Job.objects.filter(pk=job.pk).update(state="running", last_values=values, samples_per_s=812.0)
    told = " ".join(dlh("show", job.pk).out.split())
    assert "Newest values val/accuracy 0.75 Ranks rank0/samples_per_s 812" in told
    assert json.loads(dlh("show", job.pk, "--json").out)["samples_per_s"] == 812.0
    Job.objects.filter(pk=job.pk).update(state="paused")
    told = " ".join(dlh("show", job.pk).out.split())
    assert "Ranks, when it last ran rank0/samples_per_s 812" in told
    assert json.loads(dlh("show", job.pk, "--json").out)["samples_per_s"] is None


def test_a_run_without_progress_is_shown_with_that_and_no_finish_where_control_works(
    dlh: Dlh, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now()
    times = {"expected_finish_at": now, "expected_low_at": now, "expected_high_at": now}
    run = {"state": "running", "phase": "training", "step": 5, "steps_total": 100, "eta_s": 95.0}
    Job.objects.filter(pk=job.pk).update(**run, **times, moved_at=now - timedelta(minutes=3))
    words = " ".join(dlh("show", job.pk).out.split())
    assert "Left no progress for 3 min" in words and "Expected finish" not in words
    body = json.loads(dlh("show", job.pk, "--json").out)
    assert body["idle_s"] == pytest.approx(180.0, abs=30.0) and body["eta_s"] is None
    assert "no progress for 3 min" in runs._note(body) and "left" not in runs._note(body)
    monkeypatch.setattr(outlook, "standstill", lambda: Standstill(full=""))
    words = " ".join(dlh("show", job.pk).out.split())
    assert "State running" in words
    assert not any(told in words for told in ("no progress", "Left", "Expected finish"))
    assert "no progress" not in runs._note(json.loads(dlh("show", job.pk, "--json").out))


def test_a_job_that_waits_for_a_sweep_tells_until_when(dlh: Dlh, portal: Any, job: Any) -> None:
    over = timezone.now() + timedelta(minutes=40)
    node = Node.objects.create(name="n", state="up")
    reservation_hold(target=node, ends_at=over, purpose="Calibration of n", open_ended=True)
    reason = "What is free on n is reserved (Calibration of n), now or before it would end."
    Job.objects.filter(pk=job.pk).update(state="queued", waiting_code="reserved", waiting_text=reason)
    told = " ".join(dlh("show", job.pk).out.split())
    assert "(Calibration of n)" in told and f"Reserved until about {when(over.isoformat())}" in told


def test_results_on_a_node_that_does_not_answer_are_told_with_what_trains_again(
    dlh: Dlh, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    awaited = Awaited(node="node-7", until=timezone.now() + timedelta(hours=1), pauses=False)
    monkeypatch.setattr("harness.api.routes.jobs.results_awaited", lambda _: awaited)
    words = " ".join(dlh("show", job.pk).out.split())
    assert "Results on node-7 alone, which does not answer; waited for until" in words
    assert f"`dlh resume {job.pk}` has it train again now" in words

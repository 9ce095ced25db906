"""A waiting job's start is an estimate with a range, which goes with the range of its finish."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from harness.jobs.control.expectations import Expected, expected_of
from harness.jobs.control.tick import tick
from harness.jobs.models import Job, JobAttempt
from harness.jobs.starts import start_times, start_told
from scheduler.data_way import HERE
from tests.harness.jobs.helpers import estimated, queue
from tests.scheduler.pools import job as view_of
from tests.scheduler.pools import way
from worker.states import JobState

WAIT_S, RUN_S = st.floats(0.0, 1e6), st.floats(1.0, 1e6)


def noted(expected: Expected, state: str = JobState.QUEUED) -> Job:
    """A job of which these times were noted."""
    at = {
        name: datetime.fromtimestamp(getattr(expected, name), UTC)
        for name in ("start_s", "finish_s", "low_s", "high_s")
    }
    return Job(
        state=state, expected_start_at=at["start_s"], expected_finish_at=at["finish_s"],
        expected_low_at=at["low_s"], expected_high_at=at["high_s"],
    )  # fmt: skip


def expected(now_s: float, wait_s: float, run_s: float, slowdown: float) -> Expected:
    view = view_of("a", way(run_s=run_s), slowdown=slowdown)
    found = expected_of(view, (now_s + wait_s, now_s + wait_s + run_s), HERE, now_s)
    assert found is not None
    return found


@given(WAIT_S, RUN_S, st.floats(1.0, 4.0))
def test_its_lower_end_is_where_the_range_of_the_finish_has_it(wait_s: float, run_s: float, slowdown: float) -> None:
    now_s = timezone.now().timestamp() + 60.0
    told = start_told(noted(expected(now_s, wait_s, run_s, slowdown)))
    assert told is not None and told.low_at <= told.likely_at <= told.high_at
    assert told.low_at.timestamp() == pytest.approx(now_s + wait_s / slowdown, abs=1e-3 * (1.0 + wait_s + run_s))
    assert told.high_at.timestamp() == pytest.approx(now_s + wait_s, abs=1e-3)


def test_a_range_that_reaches_beyond_every_calendar_ends_before() -> None:
    now_s = timezone.now().timestamp()
    found = expected(now_s, 0.0, 3e9, 1000.0)
    assert found.finish_s <= found.high_s and noted(found).expected_high_at


def test_what_should_have_been_earlier_is_not_told_of_the_past() -> None:
    past_s = timezone.now().timestamp() - 300.0
    told = start_told(noted(expected(past_s, 600.0, 60.0, 4.0)))
    assert told is not None and told.low_at > timezone.now() - timedelta(seconds=30)


def test_of_a_job_that_has_begun_the_start_is_no_range() -> None:
    running = noted(expected(timezone.now().timestamp(), 0.0, 60.0, 2.0), JobState.RUNNING)
    assert start_told(running) is None
    assert start_times(running) == {
        "expected_start_at": running.expected_start_at, "expected_start_low_at": None, "expected_start_high_at": None,
    }  # fmt: skip


@pytest.mark.django_db
@pytest.mark.usefixtures("tasks_sent")
def test_a_start_that_moves_by_hours_is_told_again_however_long_the_run_takes(job_make: Any, node_make: Any) -> None:
    node_make(cpus=1)
    queue(estimated(job_make(), run_s=3600.0))
    tick()
    waits = queue(estimated(job_make(), run_s=5 * 86400.0))
    tick()
    waits.refresh_from_db()
    before, attempt = waits.expected_start_at, JobAttempt.objects.get()
    JobAttempt.objects.update(option={**attempt.option, "rate_per_s": 1 / 14400})
    tick()
    waits.refresh_from_db()
    assert before and waits.expected_start_at and waits.expected_start_at - before > timedelta(hours=3)


@pytest.mark.django_db
@pytest.mark.usefixtures("tasks_sent")
def test_a_start_behind_a_run_past_its_end_is_told_again_by_the_minute_alone(job_make: Any, node_make: Any) -> None:
    node_make(cpus=1)
    held = queue(estimated(job_make(), run_s=60.0))
    tick()
    Job.objects.filter(pk=held.pk).update(state=JobState.RUNNING, step=100, steps_total=100)
    waits = queue(estimated(job_make(), run_s=5 * 86400.0))
    tick()
    first = Job.objects.get(pk=waits.pk).expected_start_at
    assert first and first - timezone.now() < timedelta(seconds=5)
    for since_s, is_told_again in ((30, False), (90, True)):
        told_at = timezone.now() - timedelta(seconds=since_s)
        Job.objects.filter(pk=waits.pk).update(expected_start_at=told_at)
        tick()
        assert (Job.objects.get(pk=waits.pk).expected_start_at != told_at) is is_told_again


@pytest.mark.django_db
def test_where_nobody_can_tell_nothing_is_told(job: Any) -> None:
    Job.objects.filter(pk=job.pk).update(state=JobState.QUEUED, expected_start_at=None)
    job.refresh_from_db()
    assert start_told(job) is None and set(start_times(job).values()) == {None}


@pytest.mark.django_db
def test_queue_and_job_tell_the_same_start(job: Any, people: SimpleNamespace) -> None:
    told = noted(expected(timezone.now().timestamp() + 60.0, 600.0, 60.0, 2.0))
    names = ("state", "expected_start_at", "expected_finish_at", "expected_low_at", "expected_high_at")
    Job.objects.filter(pk=job.pk).update(queued_at=timezone.now(), **{name: getattr(told, name) for name in names})
    client = Client()
    client.force_login(people.owner)
    row, body = client.get("/api/v1/queue").json()["waiting"][0], client.get(f"/api/v1/jobs/{job.pk}").json()
    for name in ("expected_start_low_at", "expected_start_at", "expected_start_high_at"):
        assert row[name] and row[name] == body[name]
    assert row["expected_start_low_at"] < row["expected_start_at"] < row["expected_start_high_at"]

"""What is said of a promise in danger: how late the job may be, by its times; once more when the promise has passed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from harness.jobs.control.danger import Expected, danger_words
from harness.jobs.control.tick import tick
from harness.jobs.models import Job, JobEvent
from harness.moments import moment_words
from harness.rates.submitting import job_submit
from tests.harness.jobs.helpers import estimated, wish

HOUR = timedelta(hours=1)
PROMISED = datetime(2030, 1, 31, 18, tzinfo=UTC)
FINISH = "its promised finish, 2030-01-31 18:00 UTC"


@pytest.fixture
def promised(job_make, people, node_make, tasks_sent):
    """A job that waits, to be done within the hour."""
    node_make(cpus=1)
    job = estimated(job_make(**wish(timezone.now() + HOUR)), run_s=1800)
    job_submit(user=people.owner, job=job)
    tick()
    return job


@pytest.mark.parametrize(
    ("finish_min", "high_min", "from_policy", "words"),
    [
        (10, 20, "", f"It is expected to miss {FINISH}, by 10 min."),
        (10, 20, "It gets more.", f"It is expected to miss {FINISH}, by 10 min. It gets more."),
        (-10, 20, "", f"Its slack is shrinking: it may miss {FINISH}, by up to 20 min."),
        (-10, -5, "It gets more.", f"Its slack is used up: it may miss {FINISH}. It gets more."),
        (-10, -5, "", ""),
    ],
)
def test_it_says_by_how_much_the_promised_finish_may_be_missed(finish_min, high_min, from_policy, words):
    promised_s = PROMISED.timestamp()
    finish_s, high_s = promised_s + 60 * finish_min, promised_s + 60 * high_min
    expected = Expected(start_s=0.0, finish_s=finish_s, low_s=finish_s, high_s=high_s)
    assert danger_words(Job(promised_at=PROMISED, state="running"), expected, from_policy, promised_s - 3600) == words


def test_of_a_run_that_makes_no_progress_nothing_is_told_that_moves_with_the_clock():
    promised_s = PROMISED.timestamp()
    for late_s in (60, 600):
        finish_s = promised_s + late_s
        expected = Expected(start_s=0.0, finish_s=finish_s, low_s=finish_s, high_s=finish_s)
        words = danger_words(
            Job(promised_at=PROMISED, state="running"), expected, "", promised_s - 3600, stands_still=True
        )
        assert words == f"It makes no progress, so that it may miss {FINISH}."


def test_by_how_much_a_promise_may_be_missed_moves_with_the_finish_that_people_read(promised):
    job, told = promised, set()
    for eta_s in (7200.0, 7260.0, 7320.0):  # within the 3 % that move no finish
        Job.objects.filter(pk=job.pk).update(state="running", step=10, steps_total=100, eta_s=eta_s)
        tick()
        job.refresh_from_db()
        told.add((job.warning, job.expected_finish_at))
    assert len(told) == 1 and "is expected to miss" in job.warning


def test_a_promise_that_has_passed_is_told_with_the_finish_that_is_expected(promised):
    job, passed = promised, timezone.now() - timedelta(seconds=5)
    running = {"state": "running", "step": 10, "steps_total": 100, "eta_s": 7200.0}
    Job.objects.filter(pk=job.pk).update(deadline_at=passed, promised_at=passed, warning="It may be late.", **running)
    for _ in range(3):
        tick()
    job.refresh_from_db()
    assert job.warning == f"Its promised finish, {moment_words(passed, exact=True)}, has passed and it is not done yet."
    (note,) = JobEvent.objects.filter(job=job, kind="note", data__has_key="warning")
    done = moment_words(job.expected_finish_at, exact=True)
    assert note.message == f"{job.warning} It is expected to be done by {done}."
    assert note.data["passed"]

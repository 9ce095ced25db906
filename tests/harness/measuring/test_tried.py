"""What cannot be learnt from is tried again later and keeps nothing else waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.calibration.models import FinishedJobRow, RanOutRow
from harness.jobs.models import Job, JobAttempt
from harness.measuring import learning, ran_out
from harness.measuring.learning import jobs_learn
from harness.measuring.ran_out import ran_out_learn
from harness.measuring.tried import FIRST_S, FORGET_S, MOST_S, Tried
from tests.harness.jobs.helpers import run_now


class Clock:
    """Stands still until it is set."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Of those who learn."""
    found = Clock()
    for module in (learning, ran_out):
        monkeypatch.setattr(module, "_tried", Tried(found))
        monkeypatch.setattr(module, "BATCH", 1)
    return found


def test_each_failed_try_is_followed_by_a_longer_rest_up_to_the_longest() -> None:
    clock = Clock()
    tried, rests = Tried(clock), []
    for _ in range(12):
        tried.failed("job")
        assert tried.resting() == ["job"]
        before_s = clock.now_s
        while tried.resting():
            clock.now_s += FIRST_S
        rests.append(clock.now_s - before_s)
    assert rests[:3] == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S] and rests[-1] == MOST_S


def test_what_nobody_asks_for_any_more_is_forgotten() -> None:
    clock = Clock()
    tried = Tried(clock)
    tried.failed("job")
    clock.now_s += FIRST_S + FORGET_S + 1
    assert not tried.resting() and not tried._until


def test_a_job_that_cannot_be_learnt_from_keeps_no_later_one(
    ended: Callable[..., Job], clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken, lost, good = ended(0.02), ended(0.02), ended(0.02)
    JobAttempt.objects.filter(job=lost).update(outcome="failed")
    cost = learning._cost

    def fails(job: Job, attempt: JobAttempt, parts: Any) -> dict[str, Any]:
        if job.pk == broken.pk:
            raise ValueError("no plan")
        return cost(job, attempt, parts)

    monkeypatch.setattr(learning, "_cost", fails)
    assert [jobs_learn() for _ in range(4)] == [0, 0, 1, 0]
    assert FinishedJobRow.objects.get().job_id == good.pk
    assert sum(broken.pk in line for line in caplog.messages if "cannot keep" in line) == 1
    monkeypatch.setattr(learning, "_cost", cost)
    clock.now_s += FIRST_S
    assert jobs_learn() == 1
    assert FinishedJobRow.objects.filter(job=broken).exists()


def test_an_attempt_that_cannot_be_learnt_from_keeps_no_later_one(
    job_make: Callable[..., Any], node_make: Callable[..., Any], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.utils import timezone

    node_make("node-1")
    attempts = []
    for _ in range(2):
        attempt = run_now(job_make(resources={"device": "cpu", "count": 1}))
        JobAttempt.objects.filter(pk=attempt.pk).update(outcome="failed", failure={"code": "out_of_memory"})
        Job.objects.filter(pk=attempt.job_id).update(state="failed", finished_at=timezone.now())
        attempts.append(attempt)
    first, second = attempts
    limit_bytes = ran_out._limit_bytes

    def fails(attempt: JobAttempt, ran: dict[str, Any]) -> int | None:
        if attempt.pk == first.pk:
            raise ValueError("no plan")
        return limit_bytes(attempt, ran)

    monkeypatch.setattr(ran_out, "_limit_bytes", fails)
    assert [ran_out_learn() for _ in range(3)] == [0, 1, 0]
    assert RanOutRow.objects.get().attempt_id == second.pk

"""A job that was told how few ranks will do loses one, goes on without it, and never starts again."""

import os
import re
import signal

import pytest

from tests.e2e.faults import history, succeeded_after
from tests.e2e.held import HELD_AT, job_hold, job_let_go
from tests.e2e.stack import JOB_TIMEOUT_S, wait_for

pytestmark = pytest.mark.stack
COMMIT_STEPS = 5
SPEC = {
    "name": "one of two dies",
    "mode": "sync",
    "resources": {"device": "cpu", "count": 2, "least": 1},
    "checkpoints": {"every_epochs": 1, "commit_steps": COMMIT_STEPS},
}


def test_a_killed_rank_of_an_elastic_job_restarts_nothing(stack, wine):
    job = job_hold(stack, wine, **SPEC)
    os.kill(stack.ranks(job)[-1].pid, signal.SIGKILL)
    job_let_go(stack, job)
    wait_for(
        lambda: "A rank was lost: continuing with 1 of 2 ranks" in history(stack, job),
        timeout_s=JOB_TIMEOUT_S,
        what="the job goes on without the rank",
    )
    (step,) = map(int, re.findall(r"continuing with 1 of 2 ranks from step (\d+)", history(stack, job)))
    assert HELD_AT - COMMIT_STEPS <= step <= HELD_AT
    stack.job_wait(job, "succeeded")
    (attempt,) = succeeded_after(stack, job)
    assert (attempt["number"], attempt["world_size"]) == (1, 2)

"""A job that was told how few ranks will do loses one, goes on without it, and never starts again."""

import os
import signal

import pytest

from tests.e2e.faults import history
from tests.e2e.held import job_hold, job_let_go
from tests.e2e.stack import JOB_TIMEOUT_S, items, wait_for

pytestmark = pytest.mark.stack
SPEC = {
    "name": "one of two dies",
    "mode": "sync",
    "resources": {"device": "cpu", "count": 2, "least": 1},
    "checkpoints": {"every_epochs": 1, "commit_steps": 5},
}


def test_a_killed_rank_of_an_elastic_job_restarts_nothing(stack, wine):
    job = job_hold(stack, wine, **SPEC)
    os.kill(stack.ranks(job)[-1].pid, signal.SIGKILL)
    job_let_go(stack, job)
    wait_for(
        lambda: "A rank was lost: going on with 1 of 2 ranks" in history(stack, job),
        timeout_s=JOB_TIMEOUT_S,
        what="the job goes on without the rank",
    )
    ended = stack.job_wait(job, "succeeded")
    assert ended["restarts"] == 0
    (attempt,) = items(stack.get(f"/jobs/{job}/attempts"))
    assert (attempt["number"], attempt["world_size"]) == (1, 2)
    assert ended["epoch"] == ended["epochs"]
    assert stack.get(f"/jobs/{job}/results")["metric"]

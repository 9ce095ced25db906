"""Parts die while a job runs; the job ends well and in the right state."""

import os
import signal

import pytest

from tests.e2e.held import job_hold, job_let_go
from tests.e2e.stack import END_TIMEOUT_S, all_gone, items, wait_for

pytestmark = pytest.mark.stack


@pytest.fixture
def running(stack, wine, request):
    """A job that has saved and stands still in the middle of its training."""
    job = job_hold(stack, wine, name=request.node.name)
    stack.job_wait_checkpoint(job)
    yield job
    if stack.job(job)["state"] not in {"succeeded", "failed", "cancelled"}:
        stack.post(f"/jobs/{job}/cancel")
        stack.job_wait(job, "cancelled", timeout_s=END_TIMEOUT_S)


def _attempts(stack, job):
    return items(stack.get(f"/jobs/{job}/attempts"))


def test_a_killed_rank_restarts_the_job_from_its_newest_checkpoint(stack, running):
    os.kill(stack.ranks(running)[0].pid, signal.SIGKILL)
    job_let_go(stack, running)
    ended = stack.job_wait(running, "succeeded")
    assert len(_attempts(stack, running)) == 2
    assert ended["restarts"] == 1


def test_a_killed_rank_of_two_ends_its_sibling_and_restarts_both(stack, wine):
    job = job_hold(stack, wine, name="one of two dies", mode="sync", resources={"device": "cpu", "count": 2})
    stack.job_wait_checkpoint(job)
    os.kill(stack.ranks(job)[-1].pid, signal.SIGKILL)
    job_let_go(stack, job)
    stack.job_wait(job, "succeeded")
    assert [attempt["world_size"] for attempt in _attempts(stack, job)] == [2, 2]


def test_a_killed_supervisor_takes_its_ranks_along_and_the_job_restarts(stack, running):
    ranks = stack.ranks(running)
    stack.supervisor(running).kill()
    wait_for(lambda: all_gone(ranks), timeout_s=END_TIMEOUT_S, what="the ranks end")
    job_let_go(stack, running)
    stack.job_wait(running, "succeeded")
    assert len(_attempts(stack, running)) == 2


def test_a_killed_node_agent_leaves_the_run_alone(stack, running):
    stack.kill_child("node")
    job_let_go(stack, running)
    stack.job_wait(running, "succeeded")
    assert len(_attempts(stack, running)) == 1


def test_a_killed_control_process_catches_up(stack, running):
    job_let_go(stack, running)  # what it does while nobody listens is told later
    stack.kill_child("control")
    ended = stack.job_wait(running, "succeeded")
    assert len(_attempts(stack, running)) == 1
    assert ended["epoch"] == ended["epochs"]


def test_a_killed_broker_loses_no_job(stack, running):
    job_let_go(stack, running)
    stack.kill_child("broker")
    stack.job_wait(running, "succeeded")
    assert stack.get(f"/jobs/{running}/results")["metric"]


def test_a_killed_portal_comes_back_at_the_same_address(stack):
    url = stack.url
    stack.kill_child("portal")
    assert stack.get("/pool")["nodes"]
    assert stack.url == url

"""Parts die while a job runs; the job ends well and in the right state."""

import os
import signal

import pytest

from tests.e2e.faults import job_folder, newest_state, succeeded_after
from tests.e2e.held import job_hold, job_let_go
from tests.e2e.stack import END_TIMEOUT_S, JOB_TIMEOUT_S, all_gone, items, wait_for
from worker.plan import RunPaths
from worker.warden import PAUSE_FILE

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


def _newest(stack, job):
    """Name of the newest checkpoint, now that both epochs before the stop are saved."""
    wait_for(
        lambda: len(items(stack.get(f"/jobs/{job}/checkpoints"))) == 2, timeout_s=JOB_TIMEOUT_S, what="both are saved"
    )
    return newest_state(stack, job).parent.name


def test_a_killed_rank_restarts_the_job_from_its_newest_checkpoint(stack, running):
    newest = _newest(stack, running)
    os.kill(stack.ranks(running)[0].pid, signal.SIGKILL)
    job_let_go(stack, running)
    ended = stack.job_wait(running, "succeeded")
    assert ended["restarts"] == 1
    _, second = succeeded_after(stack, running, "lost")
    assert second["resume_from"] == newest


def test_a_killed_rank_of_two_ends_its_sibling_and_restarts_both(stack, wine):
    job = job_hold(stack, wine, name="one of two dies", mode="sync", resources={"device": "cpu", "count": 2})
    newest = _newest(stack, job)
    both = stack.ranks(job)
    os.kill(both[-1].pid, signal.SIGKILL)
    wait_for(lambda: all_gone(both), timeout_s=END_TIMEOUT_S, what="its sibling ends, which stands in its program")
    job_let_go(stack, job)
    stack.job_wait(job, "succeeded")
    rows = succeeded_after(stack, job, "lost")
    assert [row["world_size"] for row in rows] == [2, 2] and rows[1]["resume_from"] == newest


def test_a_killed_supervisor_takes_its_ranks_along_and_the_job_restarts(stack, running):
    newest = _newest(stack, running)
    of_run = stack.run_processes(running)
    assert stack.ranks(running)
    stack.supervisor(running).kill()
    wait_for(lambda: all_gone(of_run), timeout_s=END_TIMEOUT_S, what="the sandbox and its ranks end")
    job_let_go(stack, running)
    stack.job_wait(running, "succeeded")
    _, second = succeeded_after(stack, running, "lost")
    assert second["resume_from"] == newest


def test_a_killed_node_agent_leaves_the_run_alone_and_the_next_one_finds_it(stack, running):
    of_run = stack.run_processes(running)
    stack.kill_child("node")
    stack.post(f"/jobs/{running}/pause")
    asked = RunPaths(job_folder(stack, running)).requests(1) / PAUSE_FILE
    wait_for(asked.exists, timeout_s=END_TIMEOUT_S, what="the next agent, which knows of the run, asks it to pause")
    job_let_go(stack, running)
    stack.job_wait(running, "paused")
    wait_for(lambda: all_gone(of_run), timeout_s=END_TIMEOUT_S, what="the run has ended")
    stack.post(f"/jobs/{running}/resume")
    stack.job_wait(running, "succeeded")
    succeeded_after(stack, running, "paused")


def test_a_killed_control_process_catches_up(stack, running):
    job_let_go(stack, running)  # what it does while nobody listens is told later
    stack.kill_child("control")
    stack.job_wait(running, "succeeded")
    succeeded_after(stack, running)


def test_a_killed_broker_loses_no_job_and_the_run_goes_on(stack, running):
    job_let_go(stack, running)
    stack.kill_child("broker")
    stack.job_wait(running, "succeeded")
    succeeded_after(stack, running)


def test_a_killed_portal_comes_back_at_the_same_address(stack, running):
    url, of_run = stack.url, stack.ranks(running)
    stack.kill_child("portal")
    assert stack.get("/pool")["nodes"]
    assert stack.url == url
    assert stack.ranks(running) == of_run
    job_let_go(stack, running)
    stack.job_wait(running, "succeeded")
    succeeded_after(stack, running)

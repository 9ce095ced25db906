"""People steer a run: pause, resume, cancel."""

import pytest

from tests.e2e.faults import at_rest, checkpoints_are_whole, cores_of, never_at_once
from tests.e2e.held import LONG, NAPPING
from tests.e2e.stack import END_TIMEOUT_S, all_gone, items, wait_for

pytestmark = pytest.mark.stack


def test_a_paused_run_frees_its_devices_and_resumes_where_it_was(stack, wine):
    job = stack.job_submit(wine, {"name": "paused", **LONG}, NAPPING)
    stack.job_wait_step(job, 10)
    stack.post(f"/jobs/{job}/pause")
    paused = stack.job_wait(job, "paused")
    assert items(stack.get(f"/jobs/{job}/checkpoints"))
    wait_for(lambda: not stack.run_processes(job), timeout_s=END_TIMEOUT_S, what="the run has ended")
    stack.post(f"/jobs/{job}/resume")
    going_on = stack.job_wait_step(job, paused["step"] + 1)
    assert going_on["step"] > paused["step"] >= 10
    assert len(items(stack.get(f"/jobs/{job}/attempts"))) == 2
    stack.post(f"/jobs/{job}/cancel")
    stack.job_wait(job, "cancelled", timeout_s=END_TIMEOUT_S)
    at_rest(stack, job)
    assert never_at_once(stack, job) == 2
    assert checkpoints_are_whole(stack, job)


def test_cancel_leaves_no_process(stack, wine):
    job = stack.job_submit(wine, {"name": "cancelled", **LONG}, NAPPING)
    stack.job_wait_step(job, 1)
    running = stack.run_processes(job)
    assert stack.ranks(job)
    stack.post(f"/jobs/{job}/cancel")
    stack.job_wait(job, "cancelled", timeout_s=END_TIMEOUT_S)
    wait_for(lambda: all_gone(running), timeout_s=END_TIMEOUT_S, what="every process of the run has ended")
    at_rest(stack, job)


def test_a_queued_job_is_cancelled_at_once_and_says_why_it_waits(stack, wine):
    everything = {"device": "cpu", "count": cores_of(stack)}
    first = stack.job_submit(wine, {"name": "holds all", "resources": everything, **LONG}, NAPPING)
    stack.job_wait(first, "placed", "running")
    second = stack.job_submit(wine, {"name": "waits", **LONG})
    waiting = wait_for(
        lambda: (body := stack.job_wait(second, "queued")).get("waiting_text") and body,
        timeout_s=END_TIMEOUT_S,
        what="a reason",
    )
    assert waiting["waiting_text"]
    for job in (second, first):
        stack.post(f"/jobs/{job}/cancel")
        stack.job_wait(job, "cancelled", timeout_s=END_TIMEOUT_S)
    at_rest(stack, first, second)
    assert not items(stack.get(f"/jobs/{second}/attempts")), "it was started all the same"

"""Pause and cancel reach a job at every stage of its life; a queued one: `test_pause_and_cancel`.

More pairs of stage and request: `make bench-faults ARGS="--only parts"`.
"""

import pytest

from tests.e2e.faults import at_rest, attempts, checkpoints_are_whole, held_at, job_folder, never_at_once
from tests.e2e.held import EVALUATING, job_hold, job_hold_again, job_let_go, wait_held
from tests.e2e.stack import JOB_TIMEOUT_S, wait_for
from worker.plan import RunPaths

pytestmark = pytest.mark.stack
ONE = {"device": "cpu", "count": 1}
LONG = {
    "resources": ONE, "training": {"epochs": 3000, "seed": 1, "patience": 0}, "checkpoints": {"every_epochs": 1},
}  # fmt: skip
SHORT = {"resources": ONE, "training": {"epochs": 1, "seed": 1}}
ENDS = {"pause": {"paused"}, "cancel": {"cancelled"}}


def _act(stack, job, stage, how, ends):
    """Do it at the stage, and see that the job ends as one of `ends` with nothing left of it."""
    with held_at(stage, stack, job):
        if stage == "starting":
            assert stack.job(job)["state"] == "placed"
        stack.post(f"/jobs/{job}/{how}")
        if how == "cancel":  # it does not take a rank that moves
            wait_for(lambda: stack.job(job)["state"] in ends, timeout_s=JOB_TIMEOUT_S, what=f"{how} while {stage}")
    wait_for(lambda: stack.job(job)["state"] in ends, timeout_s=JOB_TIMEOUT_S, what=f"{how} while {stage}")
    at_rest(stack, job)
    return stack.job(job)


@pytest.mark.parametrize(
    "steps",
    [
        [("placed", "pause"), ("starting", "pause"), ("starting", "cancel")],
        [("checkpointing", "pause"), ("checkpointing", "cancel")],
        [("placed", "cancel")],
    ],
    ids=lambda steps: "-".join(f"{how}_{stage}" for stage, how in steps),
)
def test_a_job_is_paused_and_cancelled_at_any_stage_and_nothing_is_left(stack, digits, steps):
    job = stack.job_submit(digits, {"name": "steered", **LONG})
    for number, (stage, how) in enumerate(steps, start=1):
        ended = _act(stack, job, stage, how, ENDS[how])
        assert len(attempts(stack, job)) == number
        if ended["state"] == "paused":
            stack.post(f"/jobs/{job}/resume")
    never_at_once(stack, job)
    assert checkpoints_are_whole(stack, job) >= (1 if steps[0][0] == "checkpointing" else 0)


@pytest.mark.parametrize(
    ("how", "ends"),
    [("cancel", ENDS["cancel"]), ("pause", {"succeeded"})],  # nothing is left to be paused
    ids=["cancel", "pause"],
)
def test_a_job_that_is_about_to_end_obeys_as_far_as_it_can(stack, digits, how, ends):
    job = stack.job_submit(digits, {"name": f"{how} at the end", **SHORT})
    _act(stack, job, "ending", how, ends)
    assert len(attempts(stack, job)) == 1


def test_two_ranks_that_evaluate_are_paused_and_cancelled_and_nothing_is_left(stack, wine):
    job = job_hold(stack, wine, EVALUATING, mode="sync", resources={"device": "cpu", "count": 2})
    stack.post(f"/jobs/{job}/pause")
    asked = RunPaths(job_folder(stack, job)).requests(1) / "pause"
    wait_for(asked.exists, timeout_s=JOB_TIMEOUT_S, what="the ranks are asked to pause")
    job_let_go(stack, job)
    stack.job_wait(job, "paused", timeout_s=JOB_TIMEOUT_S)
    at_rest(stack, job)
    job_hold_again(stack, job)
    stack.post(f"/jobs/{job}/resume")
    wait_held(stack, job)
    stack.post(f"/jobs/{job}/cancel")
    stack.job_wait(job, "cancelled", timeout_s=JOB_TIMEOUT_S)
    at_rest(stack, job)
    assert never_at_once(stack, job) == 2
    assert checkpoints_are_whole(stack, job)

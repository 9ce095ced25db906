"""Pause and cancel reach a job at every stage of its life; a queued one: `test_pause_and_cancel`.

More pairs of stage and request: `make bench-faults ARGS="--only parts"`.
"""

import pytest

from tests.e2e.faults import at_rest, attempts, checkpoints_are_whole, held_at, never_at_once
from tests.e2e.stack import JOB_TIMEOUT_S, wait_for

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
        [("placed", "pause"), ("starting", "cancel")],
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


def test_a_job_that_is_about_to_end_is_cancelled_all_the_same(stack, digits):
    job = stack.job_submit(digits, {"name": "cancelled at the end", **SHORT})
    _act(stack, job, "ending", "cancel", ENDS["cancel"])

"""A full disk and a damaged checkpoint: the earlier good one is used, never a half one, and the cause is told."""

import pytest

from tests.e2e.faults import (
    at_rest,
    attempts,
    checkpoints_are_whole,
    flip_bit,
    history,
    job_folder,
    never_at_once,
    newest_state,
)
from tests.e2e.held import HELD, SPEC, job_let_go, wait_held
from tests.e2e.stack import END_TIMEOUT_S, JOB_TIMEOUT_S, wait_for
from tests.small_disk import NO_MOUNT, fill, small_disk

pytestmark = pytest.mark.stack
ONE = {"device": "cpu", "count": 1}
LONG = {
    "resources": ONE, "training": {"epochs": 3000, "seed": 1, "patience": 0},
    "checkpoints": {"every_epochs": 1, "keep": 3},
}  # fmt: skip
DISK_MIB = 24


def test_a_run_on_a_full_disk_says_so_and_goes_on_from_its_last_checkpoint_when_there_is_room(stack, wine):
    spec = {"name": "no room", "resources": ONE, **SPEC}
    job = stack.post("/jobs", {"project": stack.project, "dataset": wine, "spec": spec, "model": HELD})["id"]
    work = job_folder(stack, job) / "work"
    try:
        disk = small_disk(work, DISK_MIB)
        with disk:
            stack.post(f"/jobs/{job}/submit")
            wait_held(stack, job)
            stack.job_wait_checkpoint(job)
            filler = fill(work)
            job_let_go(stack, job)
            failed = wait_for(
                lambda: (body := stack.job(job))["state"] == "failed" and body, timeout_s=JOB_TIMEOUT_S, what="it fails"
            )
            assert failed["failure"]["code"] == "disk_full" and failed["restarts"] == 0
            assert checkpoints_are_whole(stack, job) >= 1
            filler.unlink()
            stack.post(f"/jobs/{job}/resume")
            stack.job_wait(job, "succeeded")
            first, second = attempts(stack, job)
            assert second["resume_from"] and not first["resume_from"]
            assert never_at_once(stack, job) == 2
            at_rest(stack, job)
    except PermissionError:
        pytest.skip(NO_MOUNT)


def test_a_checkpoint_with_a_flipped_bit_is_put_aside_and_the_older_one_used(stack, digits):
    job = stack.job_submit(digits, {"name": "damaged", **LONG})
    wait_for(lambda: checkpoints_named(stack, job) >= 2, timeout_s=JOB_TIMEOUT_S, what="two checkpoints are saved")
    stack.post(f"/jobs/{job}/pause")
    stack.job_wait(job, "paused")
    at_rest(stack, job)
    bad = newest_state(stack, job)
    flip_bit(bad)
    stack.post(f"/jobs/{job}/resume")
    newest = wait_for(
        lambda: (found := attempts(stack, job)[1:]) and found[-1]["running_at"] and found[-1],
        timeout_s=JOB_TIMEOUT_S,
        what="it goes on",
    )
    assert newest["resume_from"] and newest["resume_from"] < bad.parent.name
    assert "is damaged and was set aside" in history(stack, job)
    stack.post(f"/jobs/{job}/cancel")
    wait_for(lambda: stack.job(job)["state"] == "cancelled", timeout_s=END_TIMEOUT_S, what="it is cancelled")
    at_rest(stack, job)


def checkpoints_named(stack, job):
    return len(stack.get(f"/jobs/{job}/checkpoints")["items"])

"""Faults of the broker, the database, portal, control, disks and checkpoints; see `bench_faults`.

Not one of these may cost a run: `lost_steps` is 0 unless the disk was full or a checkpoint damaged. `detect_s` is the
time until the part, or the job, works again as the outcome says.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from tests.benchmarks.fault_lab import LONG, Fault, Lab, Row, attempts, seconds_after
from tests.e2e.faults import (
    at_rest,
    broker_forget,
    checkpoints_are_whole,
    cut_in_half,
    database_locked,
    flip_bit,
    held_at,
    history,
    job_folder,
    never_at_once,
    newest_state,
)
from tests.e2e.stack import END_TIMEOUT_S, ENDED, JOB_TIMEOUT_S, START_TIMEOUT_S, RunningStack, items, wait_for
from tests.postgres import running as postgres
from tests.small_disk import fill, small_disk

LOCK_S = 45.0
"""More than twice as long as the product waits for a locked database (20 s)."""
DOWN_S = 30.0
HOME_MIB = 512
ONE = {"device": "cpu", "count": 1}
STAGES = (("placed", "pause"), ("starting", "pause"), ("checkpointing", "pause"), ("checkpointing", "cancel"))


def goes_on(stack: RunningStack, job: str, fault: str, hurt: Callable[[], object]) -> Row:
    """Hurt a part while a job trains: the time until control has taken in new steps, which the same attempt made."""
    hurt_s = time.time()
    hurt()
    told = wait_for(lambda: _step(stack, job), timeout_s=START_TIMEOUT_S, what=f"{fault}: the portal answers")
    wait_for(lambda: _step(stack, job) > told, timeout_s=START_TIMEOUT_S, what=f"{fault}: new steps are told")
    detect_s = time.time() - hurt_s
    body, count = stack.job(job), len(attempts(stack, job))
    good = body["state"] == "running" and count == 1 and not body["restarts"] and never_at_once(stack, job) == 1
    return Row(fault=fault, outcome=f"{body['state']}, attempt {count}", good=good, detect_s=detect_s, lost_steps=0)


def _step(stack: RunningStack, job: str) -> int:
    """Newest step the portal tells; 0 while it does not answer."""
    with suppress(httpx.HTTPError, AssertionError):
        return int(stack.job(job)["step"])
    return 0


def _part_killed(lab: Lab, part: str) -> Row:
    job = lab.running(f"{part} dies")
    row = goes_on(lab.stack, job, f"{part} killed while a job runs", lambda: lab.stack.kill_child(part))
    lab.cancel(job)
    return row


def broker_killed(lab: Lab) -> Row:
    """With its append-only file."""
    return _part_killed(lab, "broker")


def portal_killed(lab: Lab) -> Row:
    """While a job runs."""
    return _part_killed(lab, "portal")


def control_killed(lab: Lab) -> Row:
    """While a job runs."""
    return _part_killed(lab, "control")


def broker_without_memory(lab: Lab) -> Row:
    """Its files are gone when it comes back."""
    job = lab.running("the broker forgets")
    fault = "broker killed, its memory lost"
    row = goes_on(lab.stack, job, fault, lambda: broker_forget(lab.stack))
    lab.cancel(job)
    return row


def database_is_locked(lab: Lab) -> Row:
    """SQLite's write lock is held for long."""
    job = lab.running("locked out")

    def hurt() -> None:
        with database_locked(lab.stack):
            time.sleep(LOCK_S)

    row = goes_on(lab.stack, job, f"SQLite locked for {LOCK_S:.0f} s (in the time told)", hurt)
    lab.cancel(job)
    return row


def database_restarted(lab: Lab) -> Row:
    """PostgreSQL is killed, away for a while, and started again."""
    with postgres() as server:
        stack = lab.own_stack(DLH_DATABASE_URL=server.url)
        job = lab.running("outlives the database", stack=stack)

        def hurt() -> None:
            server.end(signal.SIGQUIT)
            time.sleep(DOWN_S)
            server.start()

        row = goes_on(stack, job, f"PostgreSQL killed, away for {DOWN_S:.0f} s (in the time told)", hurt)
        lab.cancel(job, stack)
        stack.stop()
    return row


def _failed(stack: RunningStack, job: str) -> dict[str, Any]:
    return wait_for(
        lambda: (body := stack.job(job))["state"] == "failed" and body, timeout_s=JOB_TIMEOUT_S, what="the job fails"
    )


def _resumed(stack: RunningStack, job: str) -> int:
    """Resume, wait for its first new step; the step it started from."""
    count = len(attempts(stack, job))
    stack.post(f"/jobs/{job}/resume")
    newest = wait_for(
        lambda: (found := attempts(stack, job)[count:]) and found[-1]["running_at"] and found[-1],
        timeout_s=JOB_TIMEOUT_S,
        what="it goes on",
    )
    return int(str(newest["resume_from"] or "step-0").removeprefix("step-"))


def disk_of_the_run_full(lab: Lab) -> Row:
    """The job's own folder lies on a disk that is filled while it trains."""
    stack = lab.stack
    draft = {"project": stack.project, "dataset": lab.digits, "spec": {"name": "no room", **LONG, "resources": ONE}}
    job = str(stack.post("/jobs", draft)["id"])
    work = job_folder(stack, job) / "work"
    with small_disk(work, 24):
        stack.post(f"/jobs/{job}/submit")
        stack.job_wait_step(job, 1)
        stack.job_wait_checkpoint(job)
        hurt_s, filler = time.time(), fill(work)
        body = _failed(stack, job)
        whole = checkpoints_are_whole(stack, job)
        detect_s = seconds_after(attempts(stack, job)[-1]["ended_at"], hurt_s)
        filler.unlink()
        start = _resumed(stack, job)
        lab.cancel(job)
        at_rest(stack, job)
    code = body["failure"]["code"]
    outcome = f"failed ({code}), {whole} whole checkpoints; resumed from step {start}"
    good = code == "disk_full" and whole > 0 and start > 0
    lost = max(0, int(body["step"]) - start)
    return Row(fault="disk of the run full", outcome=outcome, good=good, detect_s=detect_s, lost_steps=lost)


def disk_of_the_installation_full(lab: Lab) -> Row:
    """Database, broker, store and logs lie on one disk that is filled while a job trains, and freed again."""
    home = lab.folder / "small"
    with small_disk(home, HOME_MIB):
        stack = RunningStack(home / "home", DLH_DISK_RESERVE_MIB="1")
        try:
            return _filled(lab, stack.wait_running(), home)
        finally:
            stack.stop()
            stack.kill()


def _filled(lab: Lab, stack: RunningStack, disk: Path) -> Row:
    job = lab.running("no room at all", stack=stack)
    hurt_s, filler = time.time(), fill(disk)
    wait_for(lambda: not stack.ranks(job), timeout_s=JOB_TIMEOUT_S, what="the run has ended")
    detect_s = time.time() - hurt_s
    time.sleep(DOWN_S)
    filler.unlink()

    def judged() -> str:
        """The state once the end of the first attempt is known; before, the job still counts as running."""
        with suppress(httpx.HTTPError, AssertionError):
            state = str(stack.job(job)["state"])
            return state if state == "failed" or (state == "running" and len(attempts(stack, job)) > 1) else ""
        return ""

    state = wait_for(judged, timeout_s=JOB_TIMEOUT_S, what="its state is right")
    start = _resumed(stack, job) if state == "failed" else int(str(attempts(stack, job)[-1]["resume_from"])[5:])
    code = (stack.job(job)["failure"] or attempts(stack, job)[0]["failure"] or {}).get("code")
    whole = checkpoints_are_whole(stack, job)
    lab.cancel(job, stack)
    at_rest(stack, job)
    outcome = f"{state} ({code}), {whole} whole checkpoints; goes on from step {start} when there is room"
    good = start > 0 and whole > 0 and never_at_once(stack, job) >= 2
    return Row(fault="disk of the installation full", outcome=outcome, good=good, detect_s=detect_s)


def _damaged(lab: Lab, fault: str, damage: Callable[[Path], None]) -> Row:
    stack = lab.stack
    job = lab.running(fault, checkpoints={"every_epochs": 1, "keep": 3})
    wait_for(
        lambda: len(items(stack.get(f"/jobs/{job}/checkpoints"))) >= 2, timeout_s=JOB_TIMEOUT_S, what="two are saved"
    )
    stack.post(f"/jobs/{job}/pause")
    stack.job_wait(job, "paused")
    at_rest(stack, job)
    bad = newest_state(stack, job)
    damage(bad)
    resumed_s = time.time()
    start = _resumed(stack, job)
    newest, told = int(bad.parent.name.removeprefix("step-")), "damaged" in history(stack, job)
    restart_s = seconds_after(str(attempts(stack, job)[-1]["running_at"]), resumed_s)
    lab.cancel(job)
    outcome = f"refused{', said so' if told else ''}; goes on from step {start}"
    good = 0 < start < newest
    return Row(fault=fault, outcome=outcome, good=good, lost_steps=newest - start, restart_s=restart_s)


def checkpoint_with_a_flipped_bit(lab: Lab) -> Row:
    """Its hash is not the one that was written."""
    return _damaged(lab, "newest checkpoint: one bit flipped", flip_bit)


def checkpoint_cut_in_half(lab: Lab) -> Row:
    """Its size is not the one that was written."""
    return _damaged(lab, "newest checkpoint: cut in half", cut_in_half)


def paused_and_cancelled_at_every_stage(lab: Lab) -> Row:
    """Each stage of one job's life in turn, and the end of another's."""
    stack, worst_s = lab.stack, 0.0
    job = stack.job_submit(lab.digits, {"name": "steered", **LONG, "resources": ONE})
    for stage, how in STAGES:
        worst_s = max(worst_s, _steer(stack, job, stage, how))
        if how == "pause":
            stack.post(f"/jobs/{job}/resume")
    short = stack.job_submit(
        lab.digits, {"name": "about to end", "resources": ONE, "training": {"epochs": 1, "seed": 1}}
    )
    worst_s = max(worst_s, _steer(stack, short, "ending", "cancel"))
    stages = ", ".join(f"{how} {stage}" for stage, how in (*STAGES, ("ending", "cancel")))
    outcome = f"obeyed, nothing left: {stages}"
    return Row(fault="pause and cancel at every stage", outcome=outcome, good=True, detect_s=worst_s)


def _steer(stack: RunningStack, job: str, stage: str, how: str) -> float:
    """Seconds from the request until the job is at rest. Raises where it is not."""
    with held_at(stage, stack, job):
        asked_s = time.monotonic()
        stack.post(f"/jobs/{job}/{how}")
    wanted = {"pause": "paused", "cancel": "cancelled"}[how]
    wait_for(lambda: stack.job(job)["state"] in {wanted, *ENDED}, timeout_s=END_TIMEOUT_S, what=f"{how} at {stage}")
    took_s = time.monotonic() - asked_s
    assert stack.job(job)["state"] == wanted, stack.job(job)
    at_rest(stack, job)
    return took_s


FAULTS: tuple[Fault, ...] = (
    broker_killed,
    broker_without_memory,
    portal_killed,
    control_killed,
    database_is_locked,
    database_restarted,
    disk_of_the_run_full,
    disk_of_the_installation_full,
    checkpoint_with_a_flipped_bit,
    checkpoint_cut_in_half,
    paused_and_cancelled_at_every_stage,
)

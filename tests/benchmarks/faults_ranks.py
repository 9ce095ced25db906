"""Ranks that are killed, raise, leave early, take all memory or get stuck; see `bench_faults`."""

from __future__ import annotations

import re
import time
from dataclasses import replace

from tests.benchmarks.fault_lab import (
    LONG,
    STALL_S,
    Fault,
    Lab,
    Row,
    attempts,
    failed,
    restarted,
    seconds_after,
)
from tests.e2e.stack import END_TIMEOUT_S, ENDED, JOB_TIMEOUT_S, RunningStack, all_gone, items, wait_for

BREAK_STEP = 60
COMMIT_STEPS = 10
MODEL = f"""
import os, time
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.layer = nn.Linear(64, outputs)
        self.steps = 0

    def forward(self, images):
        self.steps += self.training
        if self.steps == {BREAK_STEP} and os.environ.get("DLH_RANK") == "1":
            print("broken at", time.time(), flush=True)
            BREAK
        return self.layer(F.adaptive_avg_pool2d(images.float().mean(1, keepdim=True), 8).flatten(1))


def build(spec):
    return Net(spec.shape.outputs)
"""


def one_rank_is_killed(lab: Lab) -> Row:
    """SIGKILL to the only rank."""
    job = lab.running("one rank is killed")
    (rank,) = lab.stack.ranks(job)
    row = restarted(lab.stack, job, "the only rank is killed", rank.kill)
    lab.cancel(job)
    return replace(row, figures={"restart_s": row.restart_s or 0.0})


def one_of_two_is_killed(lab: Lab) -> Row:
    """SIGKILL to the second of two Horovod ranks; how long the first one lives on."""
    job = lab.running("one of two is killed", ranks=2)
    first, second = lab.stack.ranks(job)

    def hurt() -> dict[str, float]:
        started_s = time.monotonic()
        second.kill()
        wait_for(lambda: all_gone([first]), timeout_s=END_TIMEOUT_S, what="the sibling is stopped")
        return {"siblings_stop_s": time.monotonic() - started_s}

    row = restarted(lab.stack, job, "one of two ranks is killed", hurt)
    lab.cancel(job)
    return replace(row, figures={**row.figures, "restart_s": row.restart_s or 0.0})


def an_elastic_rank_is_killed(lab: Lab) -> Row:
    """SIGKILL to the second of two ranks where one will do: the other goes on in the same attempt."""
    fault, commits = (
        "a rank is killed, and `resources.least` are left",
        {"every_epochs": 1, "commit_steps": COMMIT_STEPS},
    )
    resources = {"device": "cpu", "count": 2, "least": 1}
    job = lab.running(fault, ranks=2, resources=resources, checkpoints=commits)
    step, hurt_s = int(lab.stack.job(job)["step"]), time.time()
    lab.stack.ranks(job)[-1].kill()
    at, from_step = wait_for(lambda: _noted(lab, job, "A rank was lost"), timeout_s=JOB_TIMEOUT_S, what="it is missed")
    wait_for(lambda: lab.stack.job(job)["step"] > step, timeout_s=JOB_TIMEOUT_S, what="the others make a new step")
    restart_s = time.time() - hurt_s
    wait_for(lambda: _noted(lab, job, "A rank has come back"), timeout_s=JOB_TIMEOUT_S, what="the rank comes back")
    same = len(attempts(lab.stack, job)) == 1 and lab.stack.job(job)["restarts"] == 0
    lab.cancel(job)
    return Row(
        fault=fault, outcome="goes on without it, takes it in again, same attempt", good=same,
        detect_s=seconds_after(at, hurt_s), lost_steps=max(0, step - from_step), restart_s=restart_s,
        figures={"elastic_restart_s": restart_s},
    )  # fmt: skip


def _noted(lab: Lab, job: str, words: str) -> tuple[str, int] | None:
    """(when, from which step) the run said that it goes on with another number of ranks."""
    for row in items(lab.stack.get(f"/jobs/{job}/events")):
        if row["message"].startswith(words) and (step := re.search(r"from step (\d+)", row["message"])):
            return row["at"], int(step[1])
    return None


def _program(fault: str, line: str, code: str, **resources: float) -> Fault:
    """A program whose second rank breaks itself at a step."""

    def run(lab: Lab) -> Row:
        stalls = code == "stalled"
        stack = lab.own_stack(DLH_STALL_S=str(STALL_S)) if stalls else lab.stack
        dataset = lab.upload(stack) if stalls else lab.digits
        spec = {"name": fault, **LONG, "mode": "sync", "resources": {"device": "cpu", "count": 2, **resources}}
        model = MODEL.replace("BREAK", line)
        body = {"project": stack.project, "dataset": dataset, "spec": spec, "model": model, "submit": True}
        job = str(stack.post("/jobs", body)["id"])
        log = wait_for(lambda: _broken(stack, job), timeout_s=JOB_TIMEOUT_S, what=f"{fault}: it breaks")
        return failed(stack, job, fault, float(log[1]), code)

    run.__name__ = fault.replace(" ", "_")
    return run


def _broken(stack: RunningStack, job: str) -> re.Match[str] | None:
    """Where the log tells that the program broke itself; a job that failed before it got there is an error."""
    body = stack.job(job)
    found = re.search(r"broken at ([0-9.]+)", stack.job_log(job))
    assert found or body["state"] not in ENDED, body["failure"]
    return found


FAULTS: tuple[Fault, ...] = (
    one_rank_is_killed,
    one_of_two_is_killed,
    an_elastic_rank_is_killed,
    _program("a rank raises", "raise ValueError('bad row 7')", "program_error"),
    _program("a rank exits early", "os._exit(0)", "program_error"),
    _program(
        "a rank takes all memory", "hog = [torch.ones(4 << 20) for _ in range(10**6)]", "out_of_memory", memory_gib=2
    ),
    _program("a rank is stuck in its program", "time.sleep(10**6)", "stalled"),
)

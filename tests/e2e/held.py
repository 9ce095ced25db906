"""Small jobs that are still there when something is done to them, however slow all is, though they train little.

One stands still in the middle of its training until the test lets it go on; another takes its time for each step.
"""

from __future__ import annotations

from typing import Any

from tests.e2e.faults import job_folder
from tests.e2e.stack import JOB_TIMEOUT_S, RunningStack, wait_for

HELD_AT = 20
"""Steps that the first rank has begun: two epochs are behind it, and saved where the job saves each."""
SPEC: dict[str, Any] = {
    "training": {"epochs": 8, "batch_size": 16, "seed": 1, "patience": 0},
    "checkpoints": {"every_epochs": 1},
}
"""For the wines."""
LONG: dict[str, Any] = {**SPEC, "training": {**SPEC["training"], "epochs": 3000}}
"""With `NAPPING` 20 minutes and more: nobody waits for its end."""
NET = """
import os
import time
from pathlib import Path

from torch import nn

WORK = Path(os.environ.get("DLH_WORK", "/nowhere"))  # none where the program is only read or measured


class Net(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.layer, self.steps = nn.Linear(features, outputs), 0

    def forward(self, numeric, categorical):
        self.steps += self.training
        if self.training and WORK.is_dir():
            self.wait()
        return self.layer(numeric)

    def wait(self):
        WAIT


def build(spec):
    return Net(len(spec.shape.features), spec.shape.outputs)
"""
HELD = NET.replace(
    "WAIT",
    f"""if self.steps == {HELD_AT} and os.environ.get("DLH_RANK") == "0":
            (WORK / "held").touch()
            while not (WORK / "let-go").exists():
                time.sleep(0.02)""",
)
EVALUATING = (
    NET.replace("if self.training and", f"if not self.training and self.steps >= {HELD_AT} and")
    .replace("self.steps", "Net.steps")  # what is evaluated is a copy: the running average of the weights
    .replace(
        "WAIT",
        """(WORK / "held").touch()
        while not (WORK / "let-go").exists():
            time.sleep(0.02)""",
    )
)
"""Stands still in the first evaluation after so many steps (before any, memory is tried out), on whatever rank."""
HELD_ONCE = HELD.replace('"DLH_RANK") == "0"', '"DLH_RANK") == "0" and os.environ["DLH_ATTEMPT"] == "1"')
"""Never stands still again: for attempts whose first rank may be where no test lets it go on."""
NAPPING = NET.replace("WAIT", "time.sleep(0.05)")
"""Trains for as long as it is told to, and leaves the processor to others meanwhile."""
NAPPING_CHAIN = """
import os
import time
from pathlib import Path

from torch import nn

WORK = Path(os.environ.get("DLH_WORK", "/nowhere"))  # none where the program is only read or measured


class Nap(nn.Module):
    def forward(self, rows):
        if self.training and WORK.is_dir():
            time.sleep(0.05)
        return rows


class Net(nn.Module):
    def __init__(self, features, outputs):
        super().__init__()
        self.first, self.nap, self.second = nn.Linear(features, 8), Nap(), nn.Linear(8, outputs)

    def forward(self, numeric, categorical):
        return self.second(self.nap(self.first(numeric)))


def build(spec):
    return Net(len(spec.shape.features), spec.shape.outputs)
"""
"""The same of two layers, between which it can be cut."""


def job_hold(stack: RunningStack, wine: str, model: str = HELD, **spec: Any) -> str:
    """Submit the job and wait until it stands still; its id. Parts of the spec are put over those here."""
    job = stack.job_submit(wine, SPEC | spec, model=model)
    wait_held(stack, job)
    return job


def wait_held(stack: RunningStack, job: str) -> None:
    """Until it stands still and the portal knows that it runs."""
    there = job_folder(stack, job) / "work" / "held"

    def held() -> bool:
        body = stack.job_wait(job, "queued", "placed", "running")  # any other state is told at once
        return body["state"] == "running" and there.exists()

    wait_for(held, timeout_s=JOB_TIMEOUT_S, what=f"job {job} is in the middle of its training")


def job_let_go(stack: RunningStack, job: str) -> None:
    """It trains on, and every later attempt without a stop."""
    (job_folder(stack, job) / "work" / "let-go").touch()


def job_hold_again(stack: RunningStack, job: str) -> None:
    """Its next attempt stands still, too."""
    for name in ("held", "let-go"):
        (job_folder(stack, job) / "work" / name).unlink()

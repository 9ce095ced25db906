"""What the sections of the fault bench share: a row of its table, a stack to hurt, and how a restart is timed."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

from harness.datasets.samples import sample_file
from tests.e2e.stack import END_TIMEOUT_S, JOB_TIMEOUT_S, RunningStack, all_gone, items, wait_for

LONG = {"training": {"epochs": 3000, "seed": 1, "patience": 0}, "checkpoints": {"every_epochs": 1}}
"""A job that does not end by itself while it is hurt, and saves itself every second or so."""
RESUMED = re.compile(r"Continuing from checkpoint \S+: step (\d+)")
STALL_S = 20
"""The limit without progress where that is the fault; elsewhere, as in every installation, 300 s."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table. What does not apply is None."""

    fault: str
    outcome: str
    """What became of the job, in words."""
    good: bool
    """Whether that is the outcome that docs/faults.md promises."""
    detect_s: float | None = None
    """From the fault until control has ended the attempt."""
    lost_steps: int | None = None
    """Steps made after the checkpoint that the next attempt starts from."""
    restart_s: float | None = None
    """From the fault to the first step of the next attempt."""
    figures: dict[str, float] = field(default_factory=dict)
    """Named figures for the last line of the bench."""

    def cells(self) -> list[str]:
        """The line in Markdown."""
        detect, restart = ("-" if value is None else f"{value:.1f}" for value in (self.detect_s, self.restart_s))
        lost = "-" if self.lost_steps is None else str(self.lost_steps)
        outcome = self.outcome + ("" if self.good else " (**not as promised**)")
        return [self.fault, outcome, detect, lost, restart]


class Lab:
    """Stacks in temporary homes. `stack` is shared by all faults that leave it whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.at_close: list[Callable[[], object]] = []
        """Called before the stacks are ended."""
        self._stacks: list[RunningStack] = []
        self._numbers = count()

    def own_stack(self, **environment: str) -> RunningStack:
        """A stack for one fault alone."""
        home = self.folder / f"home-{next(self._numbers)}"
        self._stacks.append(RunningStack(home, **environment))
        return self._stacks[-1].wait_running()

    @cached_property
    def stack(self) -> RunningStack:
        """The shared one, started at its first use."""
        return self.own_stack()

    @cached_property
    def digits(self) -> str:
        """Id of a dataset in the shared stack."""
        return self.upload(self.stack)

    def renew(self) -> None:
        """End all that runs, also what does not end when it is told to; the next fault starts its own.

        What breaks at that is told, and keeps nothing else from being ended.
        """
        while self.at_close:
            _tried(self.at_close.pop(0))
        while self._stacks:
            stack = self._stacks.pop(0)
            _tried(stack.stop)
            _tried(stack.kill)
        for name in ("stack", "digits"):
            self.__dict__.pop(name, None)

    def upload(self, stack: RunningStack) -> str:
        """The digits in any stack; the dataset's id."""
        return stack.upload(sample_file("digits", self.folder), "digits")

    def running(self, name: str, ranks: int = 1, stack: RunningStack | None = None, **more: Any) -> str:
        """A job that trains and has saved once; its id."""
        found = stack or self.stack
        dataset = self.digits if stack is None else self.upload(stack)
        spec = {"name": name, **LONG, "resources": {"device": "cpu", "count": ranks}, **more}
        spec["mode"] = "sync" if ranks > 1 else "single"
        job = found.job_submit(dataset, spec)
        found.job_wait_step(job, 1)
        found.job_wait_checkpoint(job)
        return job

    def cancel(self, job: str, stack: RunningStack | None = None) -> None:
        """End a job that has served."""
        found = stack or self.stack
        found.post(f"/jobs/{job}/cancel")
        wait_for(lambda: found.job(job)["state"] == "cancelled", timeout_s=END_TIMEOUT_S, what="the job is cancelled")
        wait_for(lambda: all_gone(found.run_processes(job)), timeout_s=END_TIMEOUT_S, what="its processes are gone")


def _tried(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception as error:
        print(f"while what a fault left was ended: {type(error).__name__}: {error}", file=sys.stderr, flush=True)


Fault = Callable[[Lab], Row]
"""Injects one fault and tells what came of it; raises where the platform did not recover at all."""


def seconds_after(text: str, time_s: float) -> float:
    """From a Unix time to a time as the API writes it."""
    return datetime.fromisoformat(text).timestamp() - time_s


def attempts(stack: RunningStack, job: str) -> list[dict[str, Any]]:
    """Attempts of a job, oldest first."""
    return sorted(items(stack.get(f"/jobs/{job}/attempts")), key=lambda attempt: int(attempt["number"]))


def resumed_step(stack: RunningStack, job: str, token: int) -> int:
    """The step that an attempt went on from; 0 if it began anew."""
    rows = items(stack.get(f"/jobs/{job}/events"))
    found = [RESUMED.search(row["message"]) for row in rows if row["token"] == token]
    return next((int(match[1]) for match in found if match), 0)


def restarted(stack: RunningStack, job: str, fault: str, hurt: Callable[[], object], **figures: float) -> Row:
    """Hurt a running job, wait for the first step of its next attempt, and say how long everything took.

    `hurt` may return more figures for the row.
    """
    count, step = len(attempts(stack, job)), int(stack.job(job)["step"])
    hurt_s = time.time()
    more = hurt()
    found = wait_for(
        lambda: (tries := attempts(stack, job)) and len(tries) > count and tries[-1]["running_at"] and tries,
        timeout_s=JOB_TIMEOUT_S,
        what=f"{fault}: the job trains again",
    )
    old, new = found[count - 1], found[count]
    resumed = resumed_step(stack, job, int(new["number"]))
    restart_s = seconds_after(new["running_at"], hurt_s)
    cause = (old["failure"] or {}).get("code", "")
    return Row(
        fault=fault,
        outcome=f"{old['outcome']} ({cause}), goes on from step {resumed}",
        good=old["outcome"] == "lost" and len(found) == count + 1,
        detect_s=seconds_after(old["ended_at"], hurt_s),
        lost_steps=max(0, step - resumed),
        restart_s=restart_s,
        figures=figures | (more if isinstance(more, dict) else {}),
    )


def failed(stack: RunningStack, job: str, fault: str, hurt_s: float, code: str) -> Row:
    """Wait until a job has failed of its program's own fault, and say whether it was told so and not retried."""
    body = wait_for(
        lambda: (found := stack.job(job))["state"] == "failed" and found,
        timeout_s=JOB_TIMEOUT_S,
        what=f"{fault}: the job fails",
    )
    (attempt,) = attempts(stack, job)[-1:]
    told = body["failure"]["code"]
    return Row(
        fault=fault,
        outcome=f"failed ({told}), not retried: {str(body['failure']['message']).splitlines()[0][:90]}",
        good=told == code and not body["restarts"],
        detect_s=seconds_after(attempt["ended_at"], hurt_s),
    )

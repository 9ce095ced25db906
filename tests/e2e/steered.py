"""Many random kills, pauses and cancels in a row, after each of which all must be as it should be.

The jobs train nothing: their program is a few lines that load no PyTorch, so that an attempt begins within a second. It
saves as the runtime does, under the same fence. What real training makes of kills: `tests/e2e/kills.py`.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import psutil
import redis

from tests.e2e.faults import at_rest, attempts, broker_of, checkpoints_are_whole, cores_of, never_at_once
from tests.e2e.kills import MOST_RESTARTS, OF_RUNS, PARTS, kind_of, patiently
from tests.e2e.stack import JOB_TIMEOUT_S, RunningStack, all_gone, items, wait_for
from worker.events import lease_key

SPEC: dict[str, Any] = {
    "resources": {"device": "cpu", "count": 1}, "training": {"epochs": 1, "seed": 1},
    "model": {"family": "mlp", "size": "small"},
}  # fmt: skip
PROGRAM = '''
"""Counts on, saves, and leaves when it is asked to; without an end of its own."""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

from worker.fence import desk_name, fence_raise, step_name

TOKEN, SAVE_EVERY = int(os.environ["DLH_ATTEMPT"]), 5
checkpoints = Path(os.environ["DLH_WORK"], "checkpoints")
folder = os.open(checkpoints, os.O_RDONLY)
if fence_raise(folder, TOKEN) != TOKEN:
    sys.exit("a newer attempt works here")


def tell(kind, **data):
    with open(os.environ["DLH_EVENTS"], "a") as file:
        file.write(json.dumps({"kind": kind, "time_s": time.time(), "data": data}) + "\\n")


def save(step):
    name, body = step_name(step), b"%d" % step
    making = checkpoints / desk_name(TOKEN) / f"{name}.{time.time_ns()}"
    making.mkdir()
    (making / "state.pt").write_bytes(body)
    files = {"state.pt": {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}}
    told = {"step": step, "epoch": step * 1e-3, "metric": None}
    (making / "MANIFEST.json").write_text(json.dumps({"format": 1, "files": files, "attempt": TOKEN, **told}))
    making.rename(checkpoints / name)
    tell("checkpoint", name=name, bytes=len(body), best=False, removed=[], **told)


step = max((int(path.name[5:]) for path in checkpoints.glob("step-*")), default=0)
while True:
    step += 1
    tell("progress", step=step, steps_total=10**6, epoch=step * 1e-3, epochs=1000, phase="training")
    leaves = Path(os.environ["DLH_REQUESTS"], "pause").exists()
    if leaves or step % SAVE_EVERY == 1:
        save(step)
    if leaves:
        sys.exit(75)
    time.sleep(0.1)
'''
JOBS = 3
"""On two cores one more than there is room for."""
LATEST_S = 1.0
"""Within so long after a run is there something happens to it."""
AFTER = {"pause": "paused", "cancel": "cancelled"}
"""State of a job then. Of one whose run was killed: `queued`, or its next attempt has begun."""


class Act(NamedTuple):
    """What was done to the attempt of a job, and who worked for it."""

    job: str
    how: str
    attempt: int
    processes: list[psutil.Process]


class Series:
    """Keeps a stack at work, and steers and kills."""

    def __init__(self, stack: RunningStack, dataset: str, seed: int) -> None:
        self.stack, self.draw, self.done = stack, random.Random(seed), Counter[str]()
        self._parts = self._in_turn(PARTS)
        self._acts = self._in_turn(("pause", "cancel", "kill", "kill"))
        self._dataset, self.jobs = dataset, list[str]()
        for _ in range(JOBS):
            self._begin()

    def run(self, count: int) -> None:
        """Do so much, and look after every round; at the end all jobs are cancelled and nothing is left of them."""
        self.stack.request("PATCH", "/pool/settings", json={"max_restarts": MOST_RESTARTS})
        while self.done.total() < count:
            acts = self._round()
            for act in acts:
                wait_for(lambda act=act: self._is_over(act), timeout_s=JOB_TIMEOUT_S, what=f"{act} is over")
            for act in acts:
                if act.how in AFTER:
                    self._go_on(act.job)
        for job in self.jobs:
            self._steer(job, "cancel")
        at_rest(self.stack, *self.jobs)
        for job in self.jobs:
            numbers = [row["number"] for row in attempts(self.stack, job)]
            assert numbers == list(range(1, len(numbers) + 1))
            never_at_once(self.stack, job)
        assert sum(checkpoints_are_whole(self.stack, job) for job in self.jobs)

    def _in_turn(self, kinds: tuple[str, ...]) -> Iterator[str]:
        """Without end, in an order that is drawn; each comes as often as the others."""
        while True:
            yield from self.draw.sample(kinds, len(kinds))

    def _begin(self) -> None:
        """Submit a job."""
        spec = {"name": f"steered {len(self.jobs)}", **SPEC}
        body = {"project": self.stack.project, "dataset": self._dataset, "spec": spec}
        job = str(patiently(lambda: self.stack.post("/jobs", body))["id"])
        self.jobs.append(job)
        put = {"json": {"text": PROGRAM}}
        patiently(lambda: self.stack.request("PUT", f"/jobs/{job}/program/train.py", **put))
        self._steer(job, "submit")

    def _go_on(self, job: str) -> None:
        """Have it go on; one that was cancelled before it saved cannot, and another takes its place."""
        if items(patiently(lambda: self.stack.get(f"/jobs/{job}/checkpoints"))):
            self._steer(job, "resume")
        else:
            self._begin()

    def _round(self) -> list[Act]:
        """Something happens to each job that runs, and then to a part of the stack; what happened to jobs."""
        there = wait_for(self._there, timeout_s=JOB_TIMEOUT_S, what="runs are there")
        acts = []
        for job, attempt in there:
            time.sleep(self.draw.uniform(0, LATEST_S))
            how, processes = next(self._acts), self.stack.run_processes(job)
            if how in AFTER:
                self._steer(job, how)
            elif not (how := self._killed(processes)):
                continue
            acts.append(Act(job, how, attempt, processes))
            self.done[how] += 1
        part = next(self._parts)
        if pid := self.stack.child(part):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.done[part] += 1
        return acts

    def _killed(self, processes: list[psutil.Process]) -> str:
        """Kill a process of a run; what it was, or nothing where none is left."""
        kinds = {kind: process for process in processes if (kind := kind_of(process))}
        for kind in sorted(kinds, key=lambda kind: (self.done[kind], self.draw.random())):
            with contextlib.suppress(psutil.NoSuchProcess):
                kinds[kind].kill()
                return kind
        return ""

    def _steer(self, job: str, how: str) -> None:
        """Ask for it, and again where the answer was lost: then it may have been done already."""

        def ask() -> None:
            try:
                self.stack.post(f"/jobs/{job}/{how}")
            except AssertionError as error:
                if ": 409 " not in str(error):
                    raise

        patiently(ask)

    def _there(self) -> list[tuple[str, int]]:
        """(job, its attempt) of those that have processes, once there are enough of them."""
        bodies = [patiently(lambda job=job: self.stack.job(job)) for job in self.jobs]
        found = [(body["id"], body["token"]) for body in bodies if self.stack.supervisor(body["id"])]
        return found if len(found) >= min(JOBS - 1, cores_of(self.stack)) else []

    def _is_over(self, act: Act) -> bool:
        """Whether the attempt has ended for everybody: the job goes on without it, its lease is free, its processes
        are gone."""
        body = patiently(lambda: self.stack.job(act.job))
        assert body["state"] not in {"failed", "succeeded"}, body["failure"]
        ends = {row["number"]: row["ended_at"] for row in patiently(lambda: attempts(self.stack, act.job))}
        goes_on = act.how in OF_RUNS and body["token"] > act.attempt
        is_steered = goes_on or body["state"] == AFTER.get(act.how, "queued")
        with contextlib.suppress(redis.RedisError):
            holder = broker_of(self.stack).get(lease_key(act.job))
            is_free = holder is None or int(holder) > act.attempt
            return is_steered and is_free and bool(ends[act.attempt]) and all_gone(act.processes)
        return False

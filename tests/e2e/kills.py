"""Random kills in a row on one stack that trains small jobs all the while; drawn from a seed, so that a run can be made
again (when exactly each process dies is up to the machine)."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil

from tests.e2e.faults import at_rest, attempts, checkpoints_are_whole, history, never_at_once
from tests.e2e.stack import RunningStack, items, processes_of, wait_for
from worker.states import JobState

T = TypeVar("T")
PARTS = ("broker", "control", "node", "portal")
DATABASE = "database"
OF_RUNS = {"rank": "train.py", "launcher": "worker.launch", "supervisor": "worker.supervisor"}
STATES = set(map(str, JobState))
AT_ONCE = 4
"""Jobs that are not over: more than a small machine runs, so that some always wait."""
LOOK_EVERY = 5
"""Kills between two looks at all jobs, for which the portal must be there."""
PAUSE_S = (0.1, 3.0)
"""Between two kills."""
MOST_RESTARTS = 100
ASKED = "It had been asked to pause."
"""An attempt that was lost then does not count among the restarts."""
PATIENCE_S = 120.0
SETTLE_S = 1500.0
SPEC: dict[str, Any] = {"training": {"epochs": 6, "seed": 1, "patience": 0}, "checkpoints": {"every_epochs": 1}}
KINDS: dict[str, dict[str, Any]] = {
    "alone": {"resources": {"device": "cpu", "count": 1}},
    "sync": {"mode": "sync", "resources": {"device": "cpu", "count": 2}},
    "elastic": {"mode": "sync", "resources": {"device": "cpu", "count": 2, "least": 1}},
    "pipeline": {"mode": "pipeline", "resources": {"device": "cpu", "count": 2}},
}
"""What the jobs are, beside `SPEC`."""


@dataclass
class Told:
    """What a series came to."""

    kills: Counter[str] = field(default_factory=Counter)
    jobs: Counter[str] = field(default_factory=Counter)
    """By kind."""
    lost: int = 0
    pauses: int = 0
    """By the scheduler, which makes room for others."""
    attempts: int = 0
    checkpoints: int = 0
    settled_s: float = 0.0
    """From the last kill until every job was over."""


class Storm:
    """Keeps a stack busy and kills something of it again and again."""

    def __init__(
        self, stack: RunningStack, dataset: str, seed: int, model: str | None = None,
        database_kill: Callable[[], object] | None = None,
    ) -> None:  # fmt: skip
        """`model`: text of an own one, which can be cut in two, in place of what is suggested.

        `database_kill`: ends the database and brings it back, where that is a part of its own.
        """
        self.stack, self.dataset, self.model, self.database_kill = stack, dataset, model, database_kill
        self.draw, self._kinds = random.Random(seed), kinds_in_turn(random.Random(seed))
        self.told = Told()
        self._name = f"storm {seed} of {time.time():.0f}"
        self._jobs: dict[str, str] = {}
        """Id -> kind."""
        self._trace: list[tuple[str, int]] = []

    def run(self, kills: int) -> Told:
        """Kill so often, then wait until all jobs are over and see that everything is right."""
        self.stack.request("PATCH", "/pool/settings", json={"max_restarts": MOST_RESTARTS})
        for number in range(kills):
            if number % LOOK_EVERY == 0:
                self._keep_busy()
            time.sleep(self.draw.uniform(*PAUSE_S))
            self._kill()
        last_s = time.monotonic()
        wait_for(lambda: not self._open(), timeout_s=SETTLE_S, what="every job is over")
        self.told.settled_s = time.monotonic() - last_s
        self._check()
        return self.told

    def _keep_busy(self) -> None:
        """Submit until enough jobs are open. What a dying portal left half done is found again by its name."""
        while len(self._open()) < AT_ONCE:
            name, kind = f"{self._name} {len(self._jobs)}", next(self._kinds)
            job = patiently(lambda name=name, kind=kind: self._draft(name, kind))
            patiently(lambda job=job: self._submit(job))
            self._jobs[job] = kind

    def _draft(self, name: str, kind: str) -> str:
        known = items(self.stack.get("/jobs", query=name))
        for row in known:
            if row["name"] == name:
                return str(row["id"])
        body = {"project": self.stack.project, "dataset": self.dataset, "spec": {"name": name, **SPEC, **KINDS[kind]}}
        return str(self.stack.post("/jobs", body | ({"model": self.model} if self.model else {}))["id"])

    def _submit(self, job: str) -> bool:
        if self.stack.job(job)["state"] == "draft":
            self.stack.post(f"/jobs/{job}/submit")
        return True

    def _open(self) -> list[str]:
        """Jobs that are not over; every state that is told is one that there is."""
        bodies = [patiently(lambda job=job: self.stack.job(job)) for job in self._jobs]
        for body in bodies:
            kind = self._jobs[body["id"]]
            told = f"{body['id']} ({kind}): {body['state']} {body['failure']} after {self._trace[-4:]}"
            assert body["state"] in STATES - {"failed", "cancelled"}, told
        return [body["id"] for body in bodies if body["state"] != "succeeded"]

    def _kill(self) -> None:
        """Kill something that lives, of a kind that has not died yet if there is one. Parts that died again and again
        come back after a while only, so that there may be nothing for some seconds."""
        end_s = time.monotonic() + PATIENCE_S
        while not self._killed():
            assert time.monotonic() < end_s, "nothing of the stack comes back"
            time.sleep(0.1)

    def _killed(self) -> bool:
        victims = self._victims()
        if not victims:
            return False
        kind = min(sorted(victims), key=lambda kind: (kind in self.told.kills, self.draw.random()))
        pid = self.draw.choice(victims[kind])
        try:
            if kind == DATABASE and self.database_kill:
                self.database_kill()
            else:
                os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.told.kills[kind] += 1
        self._trace.append((kind, pid))
        return True

    def _victims(self) -> dict[str, list[int]]:
        """Process ids by kind; only kinds of which there is one. The database, which is no child, has none."""
        found: dict[str, list[int]] = {name: [pid] for name in PARTS if (pid := self.stack.child(name))}
        if self.database_kill:
            found[DATABASE] = [0]
        for process in processes_of(self.stack.home):
            if kind := kind_of(process):
                found.setdefault(kind, []).append(process.pid)
        return found

    def _check(self) -> None:
        """After the storm: all over, each once at a time, whole checkpoints, nothing left, devices and leases free."""
        at_rest(self.stack, *self._jobs)
        for job in self._jobs:
            body = self.stack.job(job)
            assert body["state"] == "succeeded" and body["step"] == body["steps_total"], body
            assert self.stack.get(f"/jobs/{job}/results")["metric"], job
            tries = attempts(self.stack, job)
            assert [row["number"] for row in tries] == list(range(1, len(tries) + 1))
            ends = Counter(row["outcome"] for row in tries)
            uncounted = history(self.stack, job).count(ASKED)
            assert ends == Counter(succeeded=1, lost=body["restarts"] + uncounted, paused=ends["paused"]), ends
            assert all(row["ended_at"] for row in tries)
            never_at_once(self.stack, job)
            self.told.checkpoints += checkpoints_are_whole(self.stack, job)
            self.told.attempts += len(tries)
            self.told.lost += ends["lost"]
            self.told.pauses += ends["paused"]
        self.told.jobs = Counter(self._jobs.values())


def kind_of(process: psutil.Process) -> str:
    """What a process is of a run: of `OF_RUNS`; empty for another one, or one that has ended."""
    with contextlib.suppress(psutil.Error):
        program, *words = process.cmdline() or [""]  # one that just ended has none
        for kind, word in OF_RUNS.items():
            if "python" in Path(program).name and any(part.endswith(word) for part in words):
                return kind
    return ""


def patiently(ask: Callable[[], T]) -> T:
    """Ask again while the portal, or what it needs, is down."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except (httpx.TransportError, AssertionError) as error:
            told = str(error)
            if isinstance(error, AssertionError) and not any(f": {code} " in told for code in (502, 503)):
                raise
            assert time.monotonic() < end_s, f"the portal does not come back: {error}"
            time.sleep(0.2)


def kinds_in_turn(draw: random.Random) -> Iterator[str]:
    """Kinds of jobs without end, in an order that is drawn: each is there before one comes again."""
    while True:
        yield from draw.sample(sorted(KINDS), len(KINDS))

"""Random acts of people in a row on one stack, drawn from a seed: each is done or refused with advice, and however they
come together, no job is lost, none runs twice at once, and nothing is left (when exactly each act meets a job is up to
the machine)."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from tests.e2e.faults import at_rest, attempts, checkpoints_are_whole, never_at_once
from tests.e2e.kills import KINDS, SETTLE_S, SPEC, kinds_in_turn
from tests.e2e.stack import NO_TLS, RunningStack, items, wait_for

OF_JOBS = {
    "pause": 5, "resume": 6, "cancel": 1, "clone": 1, "delete": 1, "restore": 1, "submit": 1, "rank": 2, "move": 2,
    "offer": 2,
}  # fmt: skip
OF_POOL = {"new": 3, "drain": 1, "undrain": 2, "quota": 1, "no_quota": 1, "reserve": 1, "release": 1}
"""Acts, and how often each comes beside the others."""
MOST_JOBS = 8
PAUSE_S = (0.0, 0.8)
"""Between two acts."""
RESERVED_S = 30
OVER = {"succeeded", "cancelled", "draft"}


@dataclass
class Told:
    """What a series came to."""

    acts: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    """By act."""
    states: Counter[str] = field(default_factory=Counter)
    """Of the jobs, in the end."""


class Crowd:
    """People who do whatever the API lets them."""

    def __init__(self, stack: RunningStack, dataset: str, seed: int, model: str) -> None:
        """`model`: text of an own one, which can be cut in two."""
        self.stack, self.dataset, self.model = stack, dataset, model
        self.draw, self._kinds = random.Random(seed), kinds_in_turn(random.Random(seed))
        self.told = Told()
        self._under_way = ""
        self._jobs: list[str] = []
        self._node = stack.get("/pool")["nodes"][0]["name"]

    def run(self, acts: int) -> Told:
        """Act so often, then let all jobs end and see that everything is right."""
        self._new()
        weights = OF_JOBS | OF_POOL
        try:
            for name in self.draw.choices(list(weights), list(weights.values()), k=acts):
                time.sleep(self.draw.uniform(*PAUSE_S))
                self.told.acts[name] += 1
                self._under_way = name
                getattr(self, f"_{name}")()
        finally:
            self._under_way = ""  # what puts everything back is no act
            self._pool_as_it_was()
        wait_for(self._all_over, timeout_s=SETTLE_S, what="every job is over")
        self._check()
        return self.told

    # -- acts ----------------------------------------------------------------------------------------------

    def _ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """What the API says: done, or a refusal with advice; never that something broke."""
        address, headers = f"{self.stack.url}/api/v1{path}", {"Authorization": f"Bearer {self.stack.token}"}
        answer = httpx.request(method, address, headers=headers, json=body, timeout=60, verify=NO_TLS)
        if answer.status_code >= 400:
            told = f"{method} {path} {body}: {answer.status_code} {answer.text[:1000]}"
            assert answer.status_code < 500 or answer.status_code == 503, told
            error = answer.json()["error"]
            assert error["message"] and error["hint"], told
            if self._under_way:
                self.told.refused[self._under_way] += 1
        return answer

    def _some(self) -> str:
        return self.draw.choice(self._jobs)

    def _act(self, verb: str, body: Any = None) -> None:
        self._ask("POST", f"/jobs/{self._some()}/{verb}", body)

    def _new(self) -> None:
        if len(self._jobs) >= MOST_JOBS:
            return
        spec = {"name": f"crowd {len(self._jobs)}", **SPEC, **KINDS[next(self._kinds)]}
        body = {"project": self.stack.project, "dataset": self.dataset, "spec": spec, "model": self.model}
        job = self._ask("POST", "/jobs", body).json()["id"]
        self._jobs.append(job)
        self._ask("POST", f"/jobs/{job}/submit")

    def _pause(self) -> None:
        self._act("pause")

    def _resume(self) -> None:
        self._act("resume")

    def _cancel(self) -> None:
        self._act("cancel")

    def _restore(self) -> None:
        self._act("restore")

    def _submit(self) -> None:
        self._act("submit")

    def _delete(self) -> None:
        self._ask("DELETE", f"/jobs/{self._some()}")

    def _clone(self) -> None:
        changes = self.draw.choice([{}, {"mode": "single", "resources.count": 1}, {"mode": "async"}])
        answer = self._ask("POST", f"/jobs/{self._some()}/clone", {"changes": changes})
        if answer.is_success:
            self._jobs.append(answer.json()["id"])

    def _rank(self) -> None:
        self._ask("PATCH", f"/queue/{self._some()}", {"priority": self.draw.randint(-3, 5)})

    def _move(self) -> None:
        self._ask("POST", f"/queue/{self._some()}/move", {"to": self.draw.choice(["up", "down", "first", "last"])})

    def _offer(self) -> None:
        soon = (datetime.now(UTC) + timedelta(seconds=self.draw.choice([-5, 20, 600]))).isoformat()
        wishes = [{}, {"earliest": True}, {"count": 1}, {"device": "cpu", "count": 2}, {"deadline": soon}]
        answer = self._ask("POST", f"/jobs/{self._some()}/offers", self.draw.choice(wishes))
        if answer.is_success:
            self._ask("POST", f"/offers/{answer.json()['id']}/accept", {})

    def _drain(self) -> None:
        self._ask("POST", f"/pool/nodes/{self._node}/drain")

    def _undrain(self) -> None:
        self._ask("POST", f"/pool/nodes/{self._node}/undrain")

    def _quota(self) -> None:
        quota = {"devices": self.draw.choice([0, 1, 2]), "may_borrow": self.draw.random() < 0.5}
        self._ask("PUT", f"/pool/quotas/{self.stack.project}/cpu", quota)

    def _no_quota(self) -> None:
        self._ask("DELETE", f"/pool/quotas/{self.stack.project}/cpu")

    def _reserve(self) -> None:
        now = datetime.now(UTC)
        times = {"starts_at": now.isoformat(), "ends_at": (now + timedelta(seconds=RESERVED_S)).isoformat()}
        body = {"node": self._node, "device": self.draw.choice(["cpu:0", "cpu:1"]), "purpose": "a crowd", **times}
        self._ask("POST", "/pool/reservations", body)

    def _release(self) -> None:
        for row in items(self._ask("GET", "/pool/reservations").json()):
            self._ask("DELETE", f"/pool/reservations/{row['id']}")

    # -- the end -------------------------------------------------------------------------------------------

    def _pool_as_it_was(self) -> None:
        self._undrain()
        self._no_quota()
        self._release()

    def _all_over(self) -> bool:
        """Whether each is; what lies in the trash or is paused goes on, for an act may have left it there."""
        rows = [self.stack.job(job) for job in self._jobs]
        for row in rows:
            if row["state"] == "paused":
                self._ask("POST", f"/jobs/{row['id']}/restore")
                self._ask("POST", f"/jobs/{row['id']}/resume")
        return all(row["state"] in OVER for row in rows)

    def _check(self) -> None:
        """All over, none failed, each once at a time and to its last step, whole checkpoints, nothing left."""
        at_rest(self.stack, *(job for job in self._jobs if self.stack.job(job)["state"] != "draft"))
        for job in self._jobs:
            row = self.stack.job(job)
            self.told.states[row["state"]] += 1
            assert row["state"] != "succeeded" or row["step"] == row["steps_total"], row
            assert all(attempt["ended_at"] for attempt in attempts(self.stack, job))
            never_at_once(self.stack, job)
            checkpoints_are_whole(self.stack, job)

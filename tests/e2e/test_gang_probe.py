"""A few real steps of a job for two devices: a real node makes those of one rank, and the offer follows them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.stack import RunningStack, wait_for

pytestmark = pytest.mark.stack
BATCH = 24
SPEC = {
    "name": "two ranks",
    "model": {"family": "mlp"},
    "mode": "sync",
    "resources": {"device": "cpu", "count": 2},
    "training": {"epochs": 3, "batch_size": BATCH, "seed": 5},
}


def test_one_core_makes_the_steps_of_one_rank_and_messages_stay_modelled(stack: RunningStack, wine: str) -> None:
    job = stack.post("/jobs", {"dataset": wine, "spec": SPEC})["id"]
    offer = stack.post(f"/jobs/{job}/offers", {"count": 2})["id"]

    def looked_at(states: set[str]) -> dict[str, Any] | None:
        found: dict[str, Any] = stack.get(f"/offers/{offer}")
        return found if found["state"] == "ready" and (found["probe"] or {}).get("state", "none") in states else None

    before = wait_for(lambda: looked_at({"none"}), timeout_s=180, what="the program is read")
    assert stack.post(f"/offers/{offer}/probe", {})["batch_size"] == BATCH // 2
    after = wait_for(lambda: looked_at({"done", "failed"}), timeout_s=300, what="the steps are made")
    assert after["probe"]["state"] == "done", after["probe"]["problem"]

    def gang(found: dict[str, Any]) -> dict[str, Any]:
        (line,) = (line for line in found["lines"] if (line["count"], line["mode"]) == (2, "sync"))
        return dict(line)

    was, now = gang(before)["step_s"], gang(after)["step_s"]
    assert now["high"] / now["low"] < was["high"] / was["low"]
    assert now["mid"] > min(after["probe"]["step_s"]), "ranks also wait for each other"
    assert "on one device measured" in gang(after)["note"]
    assert any(f"{BATCH // 2} rows of a step), messages modelled" in note for note in after["notes"])

"""How the ends of the parts of an attempt come to one end."""

from __future__ import annotations

from harness.jobs.control.verdict import verdict
from harness.jobs.node_ends import end_read
from tests.harness.jobs.helpers import BROKEN, SUFFERED


def test_all_outcomes_come_to_one():
    def of(*ends):
        told = [{"node": str(index), "outcome": outcome, "failure": why} for index, (outcome, why) in enumerate(ends)]
        return verdict([end_read(body) for body in told])

    assert of(("succeeded", None), ("succeeded", None)) == ("succeeded", None)
    assert of(("paused", None), ("paused", None)) == ("paused", None)
    assert of(("cancelled", None), ("paused", None)) == ("cancelled", None)
    assert of(("cancelled", None), ("failed", BROKEN)) == ("failed", BROKEN)
    outcome, failure = of(("lost", SUFFERED), ("lost", SUFFERED))
    assert outcome == "lost" and "lost each other" in failure["message"]


def test_a_fault_of_the_program_is_not_taken_for_one_of_the_network():
    stalled = {"code": "stalled", "message": "No step. The ranks here wait for others.", "suffered": True}
    stuck = {"code": "stalled", "message": "No step. Rank 1 stands in train.py, line 3 (f)."}

    def of(first, second):
        return verdict([end_read({"node": "a", **first}), end_read({"node": "b", **second})])

    waits = {"outcome": "failed", "failure": stalled}
    assert of(waits, {"outcome": "failed", "failure": stuck}) == ("failed", stuck)
    assert of(waits, {"outcome": "cancelled"}) == ("failed", stalled)
    outcome, failure = of({"outcome": "lost", "failure": SUFFERED}, {"outcome": "succeeded"})
    assert (outcome, failure["code"]) == ("failed", "program_error")
    assert "The ranks on b ended before" in failure["message"]

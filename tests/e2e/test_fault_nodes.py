"""A machine behind a network: the network, and the machine, go and come back. Rows of docs/faults.md."""

from __future__ import annotations

import json
import time

import pytest

from harness.datasets.samples import sample_file
from tests.e2e.far_node import NO_NAMESPACES, FarNode, reserve_near
from tests.e2e.faults import at_rest, never_at_once
from tests.e2e.held import LONG, NAPPING
from tests.e2e.stack import END_TIMEOUT_S, JOB_TIMEOUT_S, RunningStack, all_gone, items, wait_for

pytestmark = pytest.mark.stack
SPEC = {"name": "far away", **LONG}
CUT_S = 5.0
"""The fault itself, not a limit."""


@pytest.fixture(scope="module")
def far(tmp_path_factory, settled):
    """The far machine; its `stack` is the near one, whose devices are kept."""
    folder = tmp_path_factory.mktemp("far")
    try:
        node = FarNode(folder)
    except OSError:
        pytest.skip(NO_NAMESPACES)
    stack = RunningStack(settled(folder / "near"), **node.near_environment())
    try:
        stack.wait_running()
        node.join(stack)
        yield node, stack, stack.upload(sample_file("wine", folder), "wine")
        stack.stop()
    finally:
        node.close()
        stack.kill()


@pytest.fixture
def job(far):
    """A job that trains on the far machine and has saved once; the near one is kept for the time being."""
    node, stack, wine = far
    reservation = reserve_near(stack)
    made = stack.job_submit(wine, SPEC, NAPPING)
    stack.job_wait_step(made, 1)
    stack.job_wait_checkpoint(made)
    assert _attempts(stack, made)[-1]["nodes"] == ["far"]
    yield made, reservation
    if any(row["id"] == reservation for row in items(stack.get("/pool/reservations"))):
        stack.request("DELETE", f"/pool/reservations/{reservation}")
    stack.post(f"/jobs/{made}/cancel")
    stack.job_wait(made, "cancelled", timeout_s=END_TIMEOUT_S)
    at_rest(stack, made)
    assert not node.supervisors()


def _attempts(stack, job):
    return sorted(items(stack.get(f"/jobs/{job}/attempts")), key=lambda attempt: attempt["number"])


def _history(stack, job):
    return " ".join(row["message"] for row in items(stack.get(f"/jobs/{job}/events")))


def _second_attempt_runs(stack, job):
    wait_for(
        lambda: len(rows := _attempts(stack, job)) == 2 and rows[1]["running_at"],
        timeout_s=JOB_TIMEOUT_S,
        what="the job trains again",
    )
    return _attempts(stack, job)


def test_ranks_on_both_machines_have_a_network_of_their_own_and_live_through_a_cut(far):
    node, stack, wine = far
    stack.request("PATCH", "/pool/settings", json={"span_nodes": True})
    gang = {"mode": "sync", "resources": {"device": "cpu", "count": 2}}
    made = stack.job_submit(wine, {**SPEC, **gang, "name": "on both"}, NAPPING)
    stack.job_wait_step(made, 3)
    assert sorted(_attempts(stack, made)[-1]["nodes"]) == ["far", "near"]
    assert "in a network shared with no other run" in _history(stack, made)
    levels = [one["sandbox_level"] for one in stack.get("/pool")["nodes"]]
    assert stack.job(made)["sandbox_level"] == min(levels)
    node.cut()
    time.sleep(CUT_S)
    step = stack.job(made)["step"]
    node.mend()
    stack.job_wait_step(made, step + 20)
    assert len(_attempts(stack, made)) == 1
    stack.post(f"/jobs/{made}/cancel")
    stack.job_wait(made, "cancelled", timeout_s=END_TIMEOUT_S)
    stack.request("PATCH", "/pool/settings", json={"span_nodes": False})


def test_a_network_that_is_away_for_five_seconds_costs_a_run_nothing(far, job):
    node, stack, _ = far
    made, _ = job
    node.cut()
    time.sleep(CUT_S)
    step = stack.job(made)["step"]
    node.mend()
    stack.job_wait_step(made, step + 20)
    assert len(_attempts(stack, made)) == 1


def test_a_network_that_stays_away_moves_the_run_and_the_old_copy_ends_and_the_node_comes_back(far, job):
    node, stack, _ = far
    made, reservation = job
    old = stack.run_processes(made)
    stack.request("DELETE", f"/pool/reservations/{reservation}")
    node.cut()
    first, second = _second_attempt_runs(stack, made)
    assert (first["outcome"], second["nodes"]) == ("lost", ["near"])
    words = _history(stack, made)
    assert "The node far does not answer." in words and "Continuing from checkpoint" in words
    wait_for(lambda: all_gone(old), timeout_s=END_TIMEOUT_S, what="the copy that nobody hears has ended")
    record = stack.home / "store" / "jobs" / made / "attempts" / "1" / "exit.json"
    assert json.loads(record.read_text())["data"]["outcome"] == "lost"
    node.mend()
    node.wait_state(stack, "up")
    stack.job_wait_step(made, stack.job(made)["step"] + 20)
    assert len(_attempts(stack, made)) == 2
    assert not node.supervisors(), "the old copy came back with its machine"


def test_a_machine_that_is_rebooted_says_so_and_its_run_goes_on_from_its_checkpoint(far, job):
    node, stack, _ = far
    made, _ = job
    node.reboot()
    first, second = _second_attempt_runs(stack, made)
    assert (first["outcome"], first["failure"]["code"], second["nodes"]) == ("lost", "node_lost", ["far"])
    assert "was restarted" in first["failure"]["message"]
    assert never_at_once(stack, made) == 2
    assert "Continuing from checkpoint" in _history(stack, made)

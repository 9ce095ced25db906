"""Two real agents time the link between them: on loopback, and between two networks with a tunnel for the two alone."""

from __future__ import annotations

import subprocess

import pytest

from tests.e2e.far_node import FarNode
from tests.e2e.people import DLH
from tests.e2e.stack import START_TIMEOUT_S, clean_environment, processes_of, wait_for

pytestmark = pytest.mark.stack


def _links(stack):
    return stack.get("/pool")["links"]


def _timed(stack, what):
    def one():
        return next((link for link in _links(stack) if link["measured_at"] and not link["waits"]), None)

    return wait_for(one, timeout_s=START_TIMEOUT_S, what=what)


def test_agents_of_two_nodes_time_their_link_when_one_has_joined_and_when_they_are_asked(make_stack, tmp_path):
    stack = make_stack(DLH_NODE_NAME="first", DLH_NODE_ADDRESS="127.0.0.2").wait_running()
    stack.post("/pool/nodes", {"name": "second"})
    token = stack.post("/pool/nodes/second/token", {})["token"]
    home = tmp_path / "second"
    command = [*DLH, "node", "join", stack.url, token, "--home", str(home), "--address", "127.0.0.3", "--json"]
    with (tmp_path / "second.txt").open("wb") as output:
        agent = subprocess.Popen(
            command, env=clean_environment(home, DLH_NODE_CORES="1"), stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    try:
        wait_for(lambda: _links(stack), timeout_s=START_TIMEOUT_S, what="the agents are asked")
        link = _timed(stack, "the link is timed")
        assert (link["first"], link["second"]) == ("first", "second")
        assert 0 < link["round_trip_s"] < 1 and link["bytes_per_s"] > 1e6
        assert link["current"] and not link["own_network"] and not link["problem"]

        assert stack.post("/pool/links", {"node": "second"}) == {"links": 1}
        again = wait_for(
            lambda: (found := _timed(stack, "it is timed anew"))["measured_at"] != link["measured_at"] and found,
            timeout_s=START_TIMEOUT_S,
            what="it is timed anew",
        )
        assert again["current"] and not again["problem"]
    finally:
        for process in processes_of(home):
            process.kill()
        agent.kill()
        agent.wait()


def test_nodes_that_can_have_a_network_of_their_own_are_timed_through_it(make_stack, tmp_path):
    try:
        far = FarNode(tmp_path)
    except OSError as error:
        pytest.skip(str(error))
    try:
        stack = make_stack(**far.near_environment()).wait_running()
        far.join(stack)
        link = _timed(stack, "the link is timed")
        able = all(node["description"]["network_problem"] == "" for node in stack.get("/pool")["nodes"])
        assert link["own_network"] is able, link
        assert 0 < link["round_trip_s"] < 1 and link["bytes_per_s"] > 1e6 and link["current"]
        _timed_encrypted(stack)
    finally:
        far.close()


def _timed_encrypted(stack):
    """Once ranks would encrypt what they send, the link is timed anew through what does."""
    nodes = [node["description"] for node in stack.get("/pool")["nodes"]]
    if any(node["encryption_problem"] for node in nodes):
        return
    by_kernel = not any(node["kernel_encryption_problem"] for node in nodes)
    stack.request("PATCH", "/pool/settings", json={"network_encryption": "required"})
    again = wait_for(
        lambda: next((link for link in _links(stack) if link["current"]), None),
        timeout_s=START_TIMEOUT_S,
        what="it is timed anew",
    )
    assert again["network"] == ("wireguard_kernel" if by_kernel else "wireguard_process") and not again["problem"]

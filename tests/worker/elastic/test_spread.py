"""Runs over two nodes: two agents with real supervisors, sandboxes and ranks, that meet through a real broker.

On a machine that allows it (root, `ip netns`) the nodes are two network namespaces joined by a bridge; everywhere also
two loopback addresses of this one machine, which proves the protocol but no network.
"""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest

from tests.untested import untested
from tests.waiting import wait_for
from tests.worker.pairs import NODES, STOP, SUM, Pair
from worker import sandbox

pytestmark = pytest.mark.ranks
FOREVER = (
    SUM
    + """
import torch, horovod.torch as hvd
while True:
    hvd.allreduce(torch.ones(8), name="beat")
    time.sleep(0.02)
"""
)
REACH = (
    SUM
    + """
import socket
def reach(port, kind=socket.SOCK_STREAM, protocol=0, quick=False):
    try:
        with socket.socket(socket.AF_INET, kind, protocol) as probe:
            if quick:
                probe.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", port))
            else:
                probe.connect(("127.0.0.1", port))
        return "reached"
    except OSError as error:
        return type(error).__name__
print("service", reach(PORT), "datagram", reach(PORT, socket.SOCK_DGRAM))
print("mptcp", reach(PORT, protocol=262), "fast open", reach(PORT, quick=True), flush=True)
"""
)


@pytest.fixture(params=["loopback", "namespaces"])
def pair(request: pytest.FixtureRequest) -> Pair:
    return request.getfixturevalue(request.param)


def test_ranks_on_two_nodes_meet_and_every_sandbox_has_its_own_host_name(pair: Pair) -> None:
    pair.start(SUM, *reversed(NODES))  # the first node comes last: the other waits for its port
    assert [pair.ended(node).data["outcome"] for node in NODES] == ["succeeded", "succeeded"], pair.logs()
    assert "rank 0 sum 3.0 on dlh-left" in pair.log(0)
    assert "rank 1 sum 3.0 on dlh-right" in pair.log(1)
    assert [pair.ended(node).rank for node in NODES] == [-1, -2]


@pytest.mark.parametrize("node", NODES)
def test_a_node_that_waits_for_another_one_pauses_at_once_as_that_may_never_come(loopback: Pair, node: str) -> None:
    loopback.start(SUM, node)
    began_s = time.monotonic()
    loopback.call(node, STOP, "pause")
    told = loopback.ended(node).data
    assert told["outcome"] == "paused" and told["unmet"] is True, "control has the others end"
    assert time.monotonic() - began_s < 60.0, "half of what ranks have to save and leave"


def test_the_twin_backend_meets_in_the_same_way(loopback: Pair) -> None:
    loopback.start(SUM, backend="torch")
    assert [loopback.ended(node).data["outcome"] for node in NODES] == ["succeeded", "succeeded"], loopback.logs()


def test_a_killed_rank_ends_the_other_node_which_knows_that_it_is_not_to_blame(pair: Pair) -> None:
    import psutil

    pair.start(FOREVER)
    wait_for(lambda: "sum" in pair.log(0) and "sum" in pair.log(1), 180.0)
    work = str(pair.of("right").work)
    victims = [process for process in psutil.process_iter() if _works_in(process, work)]
    assert victims
    for victim in victims:
        victim.kill()
    right, left = pair.ended("right"), pair.ended("left")
    assert (right.data["outcome"], right.data["failure"].get("suffered")) == ("lost", None), pair.logs()
    assert (left.data["outcome"], left.data["failure"].get("suffered")) == ("lost", True), pair.logs()


def _works_in(process: Any, work: str) -> bool:
    import psutil

    try:
        return process.environ().get("DLH_WORK") == work and "RANK" in str(process.environ())
    except psutil.Error:
        return False


def test_a_cancel_ends_a_node_that_waits_for_the_other_in_vain(loopback: Pair) -> None:
    loopback.start(SUM, "left")
    loopback.call("left", STOP, "cancel")
    assert loopback.ended("left").data["outcome"] == "cancelled"


@pytest.mark.skipif(
    sandbox.host().landlock_abi < sandbox.PORTS_ABI,
    reason=untested("ports of a shared network", "the kernel's landlock knows none"),
)
def test_ranks_that_share_the_network_reach_no_service_of_the_host(loopback: Pair) -> None:
    port = next(port for port in range(20000, 30000) if _binds(port))
    with socket.create_server(("127.0.0.1", port)):
        loopback.start(REACH.replace("PORT", str(port)))
        assert loopback.ended("left").data["outcome"] == "succeeded", loopback.logs()
    assert "service PermissionError datagram OSError" in loopback.log(0), loopback.logs()
    assert "mptcp OSError fast open OSError" in loopback.log(0), loopback.logs()


def _binds(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def test_two_nodes_write_and_own_nothing_in_common(loopback: Pair) -> None:
    loopback.start(SUM + "\nopen(os.environ['DLH_WORK'] + '/mine', 'w').write(str(rank))")
    assert [loopback.ended(node).data["outcome"] for node in NODES] == ["succeeded", "succeeded"], loopback.logs()
    assert [(loopback.of(node).work / "mine").read_text() for node in NODES] == ["0", "1"]
    assert json.loads(loopback.of("right").plan(1).read_text())["job_id"] == "job1"

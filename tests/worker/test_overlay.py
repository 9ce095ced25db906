"""A network of ranks: real tunnels between two namespaces, real supervisors and ranks in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.untested import untested
from tests.waiting import wait_for
from tests.worker.ends import LISTEN, REACH, Ends
from tests.worker.pairs import NODES, SUM, Pair
from worker.sandbox import Overlay, SandboxError, overlay
from worker.sandbox.overlay import inside_address


def test_a_failure_to_make_a_network_passes_and_that_it_works_is_remembered() -> None:
    answers = iter(["resource temporarily unavailable", ""])
    finding = overlay.Finding(lambda: next(answers))
    assert finding.problem(0.0) == "resource temporarily unavailable"
    assert finding.problem(overlay.AGAIN_S - 1) == "resource temporarily unavailable"
    assert finding.problem(overlay.AGAIN_S) == ""
    assert finding.problem(10 * overlay.AGAIN_S) == ""


LOOK = (
    SUM
    + """
import socket
def reach(host, port):
    try:
        socket.create_connection((host, port), timeout=2.0).close()
        return "reached"
    except OSError as error:
        return type(error).__name__
print("interfaces", sorted(name for _, name in socket.if_nameindex()), "broker", reach("BROKER", PORT), flush=True)
"""
)


@given(index=st.integers(0, 65_533))
def test_every_node_has_an_address_of_its_own(index: int) -> None:
    assert inside_address(index) != inside_address((index + 1) % 65_534)


@pytest.mark.parametrize("index", [-1, 65_534])
def test_a_node_too_many_is_told(index: int) -> None:
    with pytest.raises(ValueError, match=f"no address for node {index}"):
        inside_address(index)


def test_a_host_that_refuses_says_why() -> None:
    if overlay.problem():
        pytest.skip(untested("networks of ranks", overlay.problem()))
    wrong = Overlay(number=1, local="127.0.0.1", device="no-such-device", inside=inside_address(0), peers=())
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(SandboxError, match="no-such-device"):
        overlay.make(wrong)
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before


@pytest.mark.ranks
def test_ranks_of_two_attempts_on_the_same_nodes_do_not_reach_each_other_or_the_hosts(ends: Ends) -> None:
    assert ends.open(1, 5, LISTEN).line() == "listens"
    there = inside_address(1)
    assert ends.open(0, 5, REACH, there).rest() == ["reached"]
    service = ends.start(1, LISTEN)
    assert service.stdout and service.stdout.readline() == "listens\n"
    ends.open(1, 6, "import time; time.sleep(60)")
    told = ends.open(0, 6, REACH, there, *ends.addresses).rest()
    assert told == ["ConnectionRefusedError", "OSError", "OSError"]


@pytest.mark.ranks
def test_a_network_ends_with_the_process_that_is_in_it(ends: Ends) -> None:
    assert ends.open(0, 5, "pass").process.wait(60.0) == 0

    def is_free() -> bool:
        """One of the same number is refused while the first is there; the kernel takes it down a little later."""
        return ends.open(0, 5, "pass").process.wait(60.0) == 0

    wait_for(is_free, 30.0)


@pytest.mark.ranks
@pytest.mark.parametrize("backend", ["horovod", "torch"])
def test_ranks_on_two_nodes_train_in_a_network_of_their_own(namespaces: Pair, backend: str) -> None:
    if overlay.problem():
        pytest.skip(untested("networks of ranks", overlay.problem()))
    host, _, port = namespaces.broker.rpartition("@")[2].removesuffix("/0").partition(":")
    namespaces.start(LOOK.replace("BROKER", host).replace("PORT", port), network=77, backend=backend)
    ended = [namespaces.ended(node) for node in NODES]
    assert [end.data["outcome"] for end in ended] == ["succeeded", "succeeded"], namespaces.logs()
    for rank, node in enumerate(NODES):
        assert f"rank {rank} sum 3.0 on dlh-{node}" in namespaces.log(rank), namespaces.logs()
        assert "interfaces ['lo', 'peers0'] broker OSError" in namespaces.log(rank), namespaces.logs()

"""Two agents on two networks of their own time the link between them: by their hosts' networks, and by tunnels."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker import broker
from tests.untested import untested
from tests.waiting import wait_for
from tests.worker.ends import has_ended, helpers_of
from tests.worker.linking.agents import order
from tests.worker.pairs import NODES, SPACES, cut
from worker.sandbox import Encryption, overlay

PORT = 21_851
PART = """
import json, psutil, sys
from worker.linking import line, part
part.LIMIT_S, part.WAIT_S = map(float, sys.argv[2:4])
exchange, passed = line.Line.exchange, []
def held(self, size):
    passed.append(size)
    if len(passed) == 3:
        print(json.dumps({"in the middle": True}), flush=True)
        sys.stdin.readline()
    exchange(self, size)
if "held" in sys.argv:
    line.Line.exchange = held
if "busy" in sys.argv:
    begins = iter([False])
    part.runs_here = lambda: next(begins, True)
part.link_time(json.loads(sys.argv[1]), lambda told: print(json.dumps(told), flush=True))
print(json.dumps({"left": [one.name() for one in psutil.Process().children(recursive=True)]}), flush=True)
"""
Agent = Callable[..., "subprocess.Popen[str]"]
pytestmark = pytest.mark.ranks


@pytest.fixture
def agent(
    bridge: tuple[str, tuple[str, str]], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Agent]:
    """Have the agent of a node do its part: `agent("listen", network=0)`. Both reach a broker at the bridge."""
    running: list[subprocess.Popen[str]] = []

    def start(
        role: str, *, limit_s: float = 20.0, wait_s: float = 15.0, does: str = "", **changes: Any
    ) -> subprocess.Popen[str]:
        node, addresses = (0, bridge[1]) if role == "listen" else (1, bridge[1][::-1])
        request = order(role, own=addresses[0], peer=addresses[1], **changes)
        on_node = ["ip", "netns", "exec", SPACES[NODES[node]], sys.executable, "-c", PART]
        process = subprocess.Popen(
            [*on_node, json.dumps(request), str(limit_s), str(wait_s), does],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        running.append(process)
        return process

    with broker(tmp_path, bridge[0]) as url:
        monkeypatch.setenv("DLH_REDIS_URL", url)
        yield start
        for process in running:
            process.kill()
            process.communicate()


@pytest.fixture
def encrypts() -> Encryption:
    """What encrypts a network of ranks here."""
    if overlay.encryption_problem():
        pytest.skip(untested("encrypted networks of ranks", overlay.encryption_problem()))
    return Encryption.PROGRAM if overlay.encryption_problem(by_kernel=True) else Encryption.KERNEL


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout
    body: dict[str, Any] = json.loads(process.stdout.readline())
    return body


def timed(agent: Agent, **changes: Any) -> list[str]:
    """Both agents time it and leave nothing; what each says that encrypted it."""
    listens = agent("listen", **changes)
    ready = told(listens)
    connects = agent("connect", port=ready["port"], **changes)
    answer = told(connects)
    assert answer["ok"] is True, answer
    assert 0 < answer["round_trip_s"] < 1 and answer["bytes_per_s"] > 1e5
    for process in (connects, listens):
        assert told(process) == {"left": []}, "the one that listened has nothing to add"
        assert process.wait(30.0) == 0
    return [ready["encryption"], answer["encryption"]]


@pytest.mark.parametrize("network", [0, 4711])
def test_the_link_is_timed_in_the_network_that_ranks_would_use(agent: Agent, network: int) -> None:
    if network and overlay.problem():
        pytest.skip(untested("networks of ranks", overlay.problem()))
    assert timed(agent, network=network) == [Encryption.NONE] * 2


def test_where_ranks_would_encrypt_the_link_is_timed_through_what_does(agent: Agent, encrypts: Encryption) -> None:
    for request_id in ("first", "second"):  # the port is free again at once
        assert timed(agent, request_id=request_id, network=4711, network_port=PORT) == [encrypts] * 2


@pytest.mark.parametrize("role", ["listen", "connect"])
def test_a_run_that_begins_on_either_node_is_told_through_the_tunnel(
    agent: Agent, encrypts: Encryption, role: str
) -> None:
    way = {"network": 4711, "network_port": PORT}
    listens = agent("listen", does="busy" if role == "listen" else "", **way)
    connects = agent("connect", does="busy" if role == "connect" else "", port=told(listens)["port"], **way)
    assert told(connects)["problem"]["code"] == "busy"
    assert told(listens) == {"left": []}


def interfaces(node: str) -> str:
    """Of a node's host."""
    return subprocess.check_output(["ip", "-n", SPACES[node], "-br", "link"], text=True)


def test_nothing_is_left_of_an_agent_that_is_killed_in_the_middle(agent: Agent, encrypts: Encryption) -> None:
    before = [interfaces(node) for node in NODES]
    listens = agent("listen", network=4711, network_port=PORT, limit_s=2.0)
    connects = agent("connect", network=4711, network_port=PORT, does="held", port=told(listens)["port"])
    assert told(connects) == {"in the middle": True}
    helpers = helpers_of(connects.pid)
    assert len(helpers) == (encrypts is Encryption.PROGRAM)
    os.kill(connects.pid, signal.SIGKILL)
    wait_for(lambda: all(map(has_ended, helpers)), 30.0)
    assert told(listens)["problem"]["code"] in {"timeout", "cut"}
    assert told(listens) == {"left": []}
    assert [interfaces(node) for node in NODES] == before


def test_a_node_that_does_not_come_to_the_meeting_is_told_with_the_port(agent: Agent, encrypts: Encryption) -> None:
    answer = told(agent("connect", network=4711, network_port=PORT, wait_s=1.0, port=40_000))
    assert answer["problem"]["code"] == "timeout"
    assert f"UDP port 21820-21919 (here {PORT})" in answer["problem"]["message"]


def test_a_network_that_is_cut_in_the_middle_is_told_by_both(agent: Agent) -> None:
    listens = agent("listen", limit_s=2.0)
    connects = agent("connect", limit_s=2.0, does="held", port=told(listens)["port"])
    assert told(connects) == {"in the middle": True}
    with cut(NODES[1]):
        assert connects.stdin
        connects.stdin.write("\n")
        connects.stdin.flush()
        ended = [told(connects), told(listens)]
    assert [answer["problem"]["code"] for answer in ended] == ["timeout", "timeout"]

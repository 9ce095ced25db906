"""Two agents on two networks of their own time the link between them: by their hosts' networks, and by a tunnel."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.worker.linking.agents import order
from tests.worker.pairs import NODES, SPACES, cut
from worker.sandbox import overlay

PART = """
import json, sys
from worker.linking import line, part
part.LIMIT_S = float(sys.argv[2])
exchange, passed = line.Line.exchange, []
def held(self, size):
    passed.append(size)
    if len(passed) == 3:
        print(json.dumps({"in the middle": True}), flush=True)
        sys.stdin.readline()
    exchange(self, size)
if "held" in sys.argv:
    line.Line.exchange = held
part.link_time(json.loads(sys.argv[1]), lambda told: print(json.dumps(told), flush=True))
"""
Agent = Callable[..., "subprocess.Popen[str]"]
pytestmark = pytest.mark.ranks


@pytest.fixture
def agent(bridge: tuple[str, tuple[str, str]], home: Path) -> Iterator[Agent]:
    """Have the agent of a node do its part: `agent("listen", network=0)`."""
    running: list[subprocess.Popen[str]] = []

    def start(role: str, *, limit_s: float = 20.0, held: str = "", **changes: Any) -> subprocess.Popen[str]:
        node, addresses = (0, bridge[1]) if role == "listen" else (1, bridge[1][::-1])
        request = order(role, own=addresses[0], peer=addresses[1], **changes)
        on_node = ["ip", "netns", "exec", SPACES[NODES[node]], sys.executable, "-c", PART]
        process = subprocess.Popen(
            [*on_node, json.dumps(request), str(limit_s), held],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout
    body: dict[str, Any] = json.loads(process.stdout.readline())
    return body


@pytest.mark.parametrize("network", [0, 4711])
def test_the_link_is_timed_in_the_network_that_ranks_would_use(agent: Agent, network: int) -> None:
    if network and overlay.problem():
        pytest.skip(f"NO NETWORK OF RANKS HERE: {overlay.problem()}")
    listens = agent("listen", network=network)
    answer = told(agent("connect", network=network, port=told(listens)["port"]))
    assert answer["ok"] is True, answer
    assert 0 < answer["round_trip_s"] < 1 and answer["bytes_per_s"] > 1e6
    assert listens.wait(30.0) == 0
    assert listens.stdout and listens.stdout.read() == "", "the one that listened has nothing to add"


def test_a_network_that_is_cut_in_the_middle_is_told_by_both(agent: Agent) -> None:
    listens = agent("listen", limit_s=2.0)
    connects = agent("connect", limit_s=2.0, held="held", port=told(listens)["port"])
    assert told(connects) == {"in the middle": True}
    with cut(NODES[1]):
        assert connects.stdin
        connects.stdin.write("\n")
        connects.stdin.flush()
        ended = [told(connects), told(listens)]
    assert [answer["problem"]["code"] for answer in ended] == ["timeout", "timeout"]

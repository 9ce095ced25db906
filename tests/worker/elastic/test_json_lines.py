"""What arrives over a line of a gang, however much of it and from whomever."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from tests.worker.launch_configs import config
from worker.elastic import remote_nodes
from worker.elastic.json_lines import BLOCKS_MOST, LINE_BYTES, Line
from worker.elastic.remote_nodes import RemoteNodes


@pytest.fixture
def pair() -> Iterator[tuple[Line, socket.socket]]:
    """A line, and its other end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Line(ours), theirs


def test_a_seat_among_thousands_of_ranks_is_understood(pair: tuple[Line, socket.socket]) -> None:
    line, other = pair
    seat = {"slots": list(range(8000))}
    other.sendall(json.dumps(seat).encode() + b"\n")
    assert list(line.read()) == [seat]


class Endless:
    """A peer that talks without end."""

    def __init__(self) -> None:
        self.blocks = 0

    def setsockopt(self, *_: object) -> None:
        """It is as it is."""

    def recv(self, size: int, _flags: int) -> bytes:
        self.blocks += 1
        assert self.blocks <= 2 * BLOCKS_MOST
        return b"7" * size


def test_who_talks_without_end_keeps_nobody_from_all_else() -> None:
    endless = Endless()
    line = Line(endless)  # type: ignore[arg-type]
    assert list(line.read()) == []
    assert not line.ended and len(line._rest) <= 2 * LINE_BYTES


def test_a_stranger_who_says_a_little_now_and_then_takes_no_place_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"s": 0.0}
    monkeypatch.setattr(remote_nodes.time, "monotonic", lambda: now["s"])
    nodes = RemoteNodes(config(word="word"))
    with socket.create_connection(("127.0.0.1", nodes.open())) as stranger:
        for now["s"] in (0.0, 6.0, 12.0):
            stranger.sendall(b" ")
            nodes.look()
        assert stranger.recv(1) == b""

"""After a loss the others are waited for as long as a step of theirs may take."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from worker.elastic import gang
from worker.elastic.gang import ElasticGang
from worker.elastic.json_lines import Line
from worker.elastic.member import Member
from worker.elastic.patience import (
    RESCUE_MOST_S,
    SAVE_LIMIT_S,
    SEATING_LIMIT_S,
    STAND_LIMIT_S,
    seating_limit_s,
    stand_limit_s,
)
from worker.elastic.remote_gang import RemoteGang
from worker.launch_config import LaunchConfig, LocalRank
from worker.runtime.elastic import seat as seats
from worker.runtime.elastic.seat import Seat
from worker.watchdog import PATIENCE_MOST


class Said:
    """A process that has said these lines, and is told nothing."""

    def __init__(self, *lines: dict[str, Any]) -> None:
        self.lines = list(lines)
        self.shut_down = False

    def send(self, **body: Any) -> None:
        """Nobody hears it."""

    def read(self) -> Iterator[dict[str, Any]]:
        """All of it, once."""
        lines, self.lines = self.lines, []
        return iter(lines)

    def kill(self) -> None:
        """There is nothing to end."""

    def shut(self) -> None:
        """The gang gives up."""
        self.shut_down = True

    def close(self) -> None:
        """There is nothing to let go of."""


def member(slot: int, *lines: dict[str, Any]) -> Member:
    """A seated rank that has said these lines in generation 1."""
    found = Member(slot, Said(*lines), place=slot)
    found.hear(1)
    return found


@pytest.mark.parametrize(
    ("longest_s", "limit_s"),
    [([], SEATING_LIMIT_S), ([0.5, 20.0], SEATING_LIMIT_S), ([10.0, 200.0], 600.0),
     ([1e9], PATIENCE_MOST * SEATING_LIMIT_S)],
    ids=["nothing known", "short", "long", "absurd"],
)  # fmt: skip
def test_the_limit_follows_the_longest_step_and_has_an_end(longest_s: list[float], limit_s: float) -> None:
    assert seating_limit_s(longest_s) == limit_s


@pytest.mark.parametrize(
    ("said", "longest_s"),
    [([{"longest_ms": 90_000}, {"longest_ms": 30_000}], 90.0), ([{"longest_ms": None}, {"longest_ms": -1}], 0.0),
     ([{"longest_ms": 10**400}], 1e6), ([{"longest_ms": "90000"}], 0.0)],
    ids=["the longest counts", "nothing", "absurd", "no number"],
)  # fmt: skip
def test_a_rank_says_how_long_its_steps_are(said: list[dict[str, Any]], longest_s: float) -> None:
    assert member(0, *said).longest_s == longest_s


@pytest.mark.parametrize(("longest_ms", "gives_up"), [(0, True), (150_000, False)], ids=["short steps", "long steps"])
def test_a_rank_that_is_deep_in_a_long_step_is_waited_for(
    longest_ms: int, gives_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(gang.time, "monotonic", lambda: now_s[0])
    ranks = [LocalRank(rank=rank, local_rank=rank, stdout_fd=-1, stderr_fd=-1, environment={}) for rank in range(3)]
    config = LaunchConfig(
        argv=[], workdir="/", requests="/nowhere", status_fd=-1, backend="horovod", hosts=[("localhost", 3)],
        hostname="localhost", address="127.0.0.1", interface="lo", ranks=ranks, least=1,
    )  # fmt: skip
    run = ElasticGang(config)
    monkeypatch.setattr(run, "_tell", lambda body: None)
    run.generation = 1
    run.members = {slot: member(slot, {"met": 1}, {"longest_ms": longest_ms}) for slot in (0, 1)}
    run._break()
    now_s[0] += SEATING_LIMIT_S + 1
    run._arrange()
    assert {each.process.shut_down for each in run.members.values()} == {gives_up}


def _cut_off(monkeypatch: pytest.MonkeyPatch, *lines: dict[str, Any]) -> tuple[RemoteGang, Said]:
    """The gang of a second node whose first node has just gone, and its one process, which has said these lines."""
    ranks = [LocalRank(rank=2, local_rank=0, stdout_fd=-1, stderr_fd=-1, environment={})]
    config = LaunchConfig(
        argv=[], workdir="/", requests="/nowhere", status_fd=-1, backend="horovod", hosts=[("left", 2), ("right", 1)],
        hostname="right", address="127.0.0.1", interface="lo", ranks=ranks, least=1, port_file="/nowhere/port",
    )  # fmt: skip
    run, process = RemoteGang(config), Said(*lines)
    monkeypatch.setattr(run, "_tell", lambda body: None)
    ours, theirs = socket.socketpair()
    theirs.close()
    run._first, run.processes = Line(ours), {2: process}
    run._reap()
    return run, process


@pytest.mark.parametrize(("longest_ms", "gives_up"), [(0, True), (150_000, False)], ids=["short steps", "long steps"])
def test_without_the_first_node_a_rank_deep_in_a_long_step_is_waited_for(
    longest_ms: int, gives_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(gang.time, "monotonic", lambda: now_s[0])
    run, process = _cut_off(monkeypatch, {"longest_ms": longest_ms})
    now_s[0] += STAND_LIMIT_S + 1
    run._reap()
    assert process.shut_down is gives_up


def test_who_stands_still_late_has_all_the_time_to_write_its_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(gang.time, "monotonic", lambda: now_s[0])
    run, process = _cut_off(monkeypatch)
    now_s[0] += STAND_LIMIT_S - 1
    process.lines.append({"ready": 1, "step": 40})
    ended = []
    for waited_s in (0.0, SAVE_LIMIT_S - 1, 2.0):
        now_s[0] += waited_s
        run._reap()
        ended.append(process.shut_down)
    assert ended == [False, False, True]


def test_no_node_takes_longer_to_save_than_control_is_told() -> None:
    assert stand_limit_s([1e9]) + SAVE_LIMIT_S == RESCUE_MOST_S


def test_a_rank_tells_the_gang_of_long_steps_alone_and_of_much_longer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr(seats.time, "monotonic", lambda: now_s[0])
    ours, theirs = socket.socketpair()

    def never() -> NoReturn:
        raise AssertionError

    seat = Seat(theirs.detach(), lambda generation: None, never, never)
    for step_s in seat.each_timed(iter((1.0, 60.0, 61.0, 3.0, 90.0))):
        now_s[0] += step_s
    with seat.timed():
        now_s[0] += 300.0
    line = Line(ours)
    assert list(line.read()) == [{"longest_ms": 60_000}, {"longest_ms": 90_000}, {"longest_ms": 300_000}]
    line.close()

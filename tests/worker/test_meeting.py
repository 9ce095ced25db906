"""How nodes find each other at the broker, and how little they ask of it while some of them still fetch their data."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.waiting import wait_for
from worker import meeting
from worker.meeting import LOOK_MOST_S, LOOK_S, LOOK_SHARE, Meeting

NODES = ("a", "b", "c")


class Broker:
    """A hash, and what was asked of it."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}
        self.asked: Counter[str] = Counter()
        self.open = 0

    def hset(self, _: str, node: str, entry: str) -> None:
        self.asked["hset"] += 1
        self.entries[node] = entry

    def expire(self, *_: object) -> None:
        self.asked["expire"] += 1

    def hlen(self, _: str) -> int:
        self.asked["hlen"] += 1
        return len(self.entries)

    def hexists(self, _: str, node: str) -> bool:
        self.asked["hexists"] += 1
        return node in self.entries

    def hgetall(self, _: str) -> dict[str, str]:
        self.asked["hgetall"] += 1
        return dict(self.entries)

    def close(self) -> None:
        self.open -= 1


class Clock:
    """Stands for the module `time`; `at` says what happens when."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.at: dict[float, Any] = {}

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        for due_s in [due_s for due_s in self.at if due_s <= self.now_s]:
            self.at.pop(due_s)()


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()

    def client(_: Meeting) -> Broker:
        made.open += 1
        return made

    monkeypatch.setattr(Meeting, "_client", client)
    return made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(meeting, "time", made)
    return made


def test_a_node_that_waits_for_an_hour_asks_for_little(broker: Broker, clock: Clock) -> None:
    broker.entries["a"] = "45000"
    with pytest.raises(TimeoutError):
        Meeting("redis://", "place", NODES, "b").wait(3600.0)
    assert sum(broker.asked.values()) < 2.2 * 3600 / LOOK_MOST_S
    assert broker.asked["hgetall"] == 0, "a thousand nodes do not read a thousand entries each second"
    assert broker.asked["hset"] == broker.asked["expire"] == 60, "the hash outlives its ten minutes"


@settings(deadline=None, max_examples=30)
@given(st.floats(0.0, 2000.0))
def test_the_last_node_is_seen_after_little_of_what_was_waited_for_it(last_s: float) -> None:
    broker, clock = Broker(), Clock()
    broker.entries["a"] = "45000"
    clock.at[last_s] = lambda: broker.hset("place", "c", "0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Meeting, "_client", lambda _: broker)
        patch.setattr(meeting, "time", clock)
        assert Meeting("redis://", "place", NODES, "b").wait(3600.0) == 45000
    assert clock.now_s <= last_s + max(LOOK_S, min(LOOK_MOST_S, LOOK_SHARE * last_s)) + 1e-6


def test_a_broker_that_lost_its_memory_is_told_again(broker: Broker, clock: Clock) -> None:
    clock.at[100.0] = broker.entries.clear
    clock.at[102.0] = lambda: broker.entries.update(a="45000", c="0")
    assert Meeting("redis://", "place", NODES, "b").wait(3600.0) == 45000
    assert clock.now_s < 105.0


def test_the_first_node_enters_last_when_the_others_are_there(broker: Broker, clock: Clock) -> None:
    first = Meeting("redis://", "place", NODES, "a")
    first.tell(45000)
    before: list[str] = []

    def last_comes() -> None:
        before.extend(broker.entries)
        broker.entries["c"] = "0"

    clock.at[5.0] = lambda: broker.entries.update(b="0")
    clock.at[30.0] = last_comes
    assert first.wait(3600.0) == 45000
    assert before == ["b"] and broker.entries["a"] == "45000"


def test_others_that_are_not_of_the_meeting_do_not_count(broker: Broker, clock: Clock) -> None:
    broker.entries.update(a="45000", stranger="0")
    with pytest.raises(TimeoutError):
        Meeting("redis://", "place", NODES, "b").wait(60.0)


@pytest.mark.parametrize("meets", [True, False])
def test_the_thread_leaves_no_connection_to_the_broker(broker: Broker, meets: bool) -> None:
    if meets:
        broker.entries.update(a="45000", c="0")
    look = Meeting("redis://", "place", NODES, "b")
    look.start()
    wait_for(lambda: look.port == 45000 if meets else broker.asked["hlen"] > 0)
    look.close()
    wait_for(lambda: broker.open == 0)

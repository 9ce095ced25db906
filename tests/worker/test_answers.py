"""What a node was asked is answered: also where the work breaks, and where the broker is away at that moment."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kombu.exceptions import OperationalError

from worker import celery_app, exporting, inspection, programs, rate_range, sandbox, tasks, unanswered
from worker.linking import part


class Broker:
    """One that is away for the first so many tries, and a clock that only waiting moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, away: int) -> None:
        self.away, self.now_s, self.got = away, 0.0, list[Any]()
        monkeypatch.setattr(celery_app.app, "send_task", self._send)
        monkeypatch.setattr(celery_app.time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(celery_app.time, "sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def _send(self, task: str, arguments: list[Any], **_: Any) -> None:
        self.away -= 1
        if self.away >= 0:
            raise OperationalError("connection refused")
        self.got.append((task, arguments))


def test_an_answer_waits_for_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch, away=5)
    tasks._to("control.measure_done")({"request_id": "r", "ok": True})
    assert broker.got == [("control.measure_done", [{"request_id": "r", "ok": True}])]


def test_it_waits_no_longer_than_control_does(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch, away=10**6)
    with pytest.raises(OperationalError):
        celery_app.answer_to_control("control.measure_done", {})
    assert 0 < broker.now_s <= celery_app.ANSWER_S


def test_how_far_something_is_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch, away=1)
    with pytest.raises(OperationalError):
        tasks._to("control.rate_range_done")({"request_id": "r", "progress": 0.5})
    assert (broker.now_s, broker.got) == (0.0, [])


class AtOnce:
    """In place of a queue of programs."""

    @staticmethod
    def put(work: Any) -> None:
        work()


class Never:
    """The queue of an agent that is killed before it comes to it."""

    @staticmethod
    def put(work: Any) -> None:
        pass


@pytest.fixture
def broker(home: Path, monkeypatch: pytest.MonkeyPatch) -> Broker:
    for place, name in ((programs, "queue"), (programs, "measuring_queue"), (exporting, "queue")):
        monkeypatch.setattr(place, name, AtOnce)
    return Broker(monkeypatch, away=0)


def breaks(*_: Any, **__: Any) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize(
    ("task", "place", "name", "request_of", "told_by"),
    [
        (tasks.predict, programs, "predict", {"prediction_id": "p"}, "control.prediction_done"),
        (tasks.export, exporting, "export", {"export_id": "e"}, "control.export_done"),
        (tasks.check, programs, "check", {"check_id": "c"}, "control.check_done"),
        (tasks.inspect, inspection, "inspect", {"request_id": "r"}, "control.inspect_done"),
        (tasks.measure, inspection, "measure", {"request_id": "r"}, "control.measure_done"),
        (tasks.rate_test, rate_range, "rate_test", {"request_id": "r"}, "control.rate_range_done"),
        (tasks.link, part, "link_time", {"request_id": "r"}, "control.link_told"),
    ],
)
def test_what_breaks_on_the_node_is_answered_at_once_and_its_cause_is_in_the_log(
    task: Any, place: Any, name: str, request_of: dict[str, Any], told_by: str, broker: Broker,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(place, name, breaks)
    task(request_of)
    last, (answer,) = broker.got[-1]
    assert last == told_by and {**answer, **request_of} == answer
    problem = answer["problem"]
    assert "thread" not in problem["message"] and problem["hint"].startswith("Ask again.")
    assert "can't start new thread" in caplog.text


def test_what_an_agent_was_asked_before_it_was_killed_is_answered_by_the_next_one(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks.check({"check_id": "done", "job_dir": "/nowhere"})
    broker.got.clear()
    monkeypatch.setattr(programs, "queue", Never)
    monkeypatch.setattr(programs, "measuring_queue", Never)
    tasks.check({"check_id": "c", "job_dir": "/nowhere"})
    tasks.measure({"request_id": "probe", "batch_size": 8})
    tasks.measure({"request_id": "sweep", "points": [{"request_id": "a"}]})
    unanswered.left_answer()
    assert broker.got == [], "this agent may still come to it"
    monkeypatch.setattr(unanswered, "_OWN", "next")
    unanswered.left_answer()
    told = {task: answer for task, (answer,) in broker.got}
    assert told.keys() == {"control.check_done", "control.measure_done"} and len(broker.got) == 2
    assert told["control.check_done"]["check_id"] == "c"
    assert told["control.measure_done"]["request_id"] == "probe"
    assert told["control.measure_done"]["problem"]["code"] == "start_failed"
    assert "ended meanwhile" in told["control.measure_done"]["problem"]["message"]
    broker.got.clear()
    unanswered.left_answer()
    assert broker.got == [], "once"


def killed_after(monkeypatch: pytest.MonkeyPatch, *asked: Callable[[], None], left_s: float = 60.0) -> None:
    """An agent was asked for these by messages that expire so soon, and was killed; the next one begins."""
    until = (datetime.now(UTC) + timedelta(seconds=left_s)).isoformat()
    with monkeypatch.context() as patch:
        patch.setattr(programs, "queue", Never)
        patch.setattr(programs, "measuring_queue", Never)
        patch.setattr(tasks, "current_task", SimpleNamespace(request=SimpleNamespace(expires=until)))
        for ask in asked:
            ask()
    monkeypatch.setattr(unanswered, "_OWN", "next")


def test_an_answer_that_does_not_get_through_holds_up_no_other_and_is_sent_again_alone(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_after(monkeypatch, *(partial(tasks.check, {"check_id": name}) for name in "abc"))
    broker.away = 1
    with pytest.raises(OperationalError):
        unanswered.left_answer()
    assert len(broker.got) == 2 and broker.now_s == 0.0
    unanswered.left_answer()
    assert sorted(answer["check_id"] for _, (answer,) in broker.got) == ["a", "b", "c"]
    unanswered.left_answer()
    assert len(broker.got) == 3, "once"


def test_what_control_waits_for_no_more_is_not_answered_as_it_may_have_been_asked_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_after(monkeypatch, partial(tasks.inspect, {"request_id": "program"}), left_s=-1.0)
    unanswered.left_answer()
    assert broker.got == []


def test_the_timing_of_a_link_is_waited_for_after_its_message_has_expired(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_after(monkeypatch, partial(tasks.link, {"request_id": "order"}), left_s=-1.0)
    unanswered.left_answer()
    assert [(task, answer["request_id"]) for task, (answer,) in broker.got] == [("control.link_told", "order")]


def test_of_several_things_those_that_had_their_answer_before_it_broke_get_no_second_one(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = iter([{"request_id": "a", "ok": True}])
    monkeypatch.setattr(inspection, "measure_one", lambda _: next(done, None) or breaks())
    tasks.measure({"request_id": "r", "points": [{"request_id": name} for name in "abc"]})
    told = [(answer["request_id"], answer["ok"]) for _, (answer,) in broker.got]
    assert told == [("a", True), ("b", False), ("c", False)]


def test_how_far_something_is_is_no_answer(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    def test(request: dict[str, Any], send: Any) -> None:
        send({"request_id": request["request_id"], "progress": 0.5})
        breaks()

    monkeypatch.setattr(rate_range, "rate_test", test)
    tasks.rate_test({"request_id": "r"})
    assert [set(answer) for _, (answer,) in broker.got] == [{"request_id", "progress"}, {"request_id", "ok", "problem"}]


def test_a_check_is_made_though_nobody_could_be_told_that_it_begins(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.away = 1
    monkeypatch.setattr(programs, "check", lambda request: {**request, "ok": True})
    tasks.check({"check_id": "c"})
    assert broker.got == [("control.check_done", [{"check_id": "c", "ok": True}])]


def test_a_line_that_cannot_be_handed_on_stops_neither_the_program_nor_its_answer() -> None:
    def refuse(line: str) -> None:
        raise OperationalError("connection refused")

    body = "for i in range(5000): print('a line of some length', i, flush=True)"
    done = sandbox.run_sandboxed(
        [sys.executable, "-c", body], name="answers", workdir=Path("/"), on_line=refuse, timeout_s=60.0
    )
    assert (done.returncode, done.timed_out) == (0, False)
    assert done.stdout.splitlines()[-1] == "a line of some length 4999"

"""What a node has computed for control reaches it, also where the broker is away at that moment."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from kombu.exceptions import OperationalError

from worker import celery_app, sandbox, tasks


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


def test_a_line_that_cannot_be_handed_on_stops_neither_the_program_nor_its_answer() -> None:
    def refuse(line: str) -> None:
        raise OperationalError("connection refused")

    body = "for i in range(5000): print('a line of some length', i, flush=True)"
    done = sandbox.run_sandboxed(
        [sys.executable, "-c", body], name="answers", workdir=Path("/"), on_line=refuse, timeout_s=60.0
    )
    assert (done.returncode, done.timed_out) == (0, False)
    assert done.stdout.splitlines()[-1] == "a line of some length 4999"

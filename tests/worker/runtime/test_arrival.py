"""Ranks wait for each other at the rendezvous, whatever becomes of single connections."""

from __future__ import annotations

import http.client
from types import SimpleNamespace

import pytest

from worker.runtime import arrival as module


class Clock:
    """Passes by sleeping alone."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        """Now."""
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Later."""
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Of the module, and the variables of the second of two ranks."""
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    named = {"GLOO_RENDEZVOUS_ADDR": "127.0.0.1", "GLOO_RENDEZVOUS_PORT": "1", "RANK": "1", "SIZE": "2"}
    for name, value in {**named, "LOCAL_SIZE": "2"}.items():
        monkeypatch.setenv(f"HOROVOD_{name}", value)
    return made


def test_a_rank_whose_connection_fails_for_a_while_tries_again(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def connect(*_: object, **__: object) -> SimpleNamespace:
        def request(method: str, path: str, body: object = None) -> None:
            asked.append(f"{method} {path}")
            if 10.0 < clock.now_s < 40.0:
                raise ConnectionResetError("by peer")

        status = http.client.OK if clock.now_s > 50.0 else http.client.NOT_FOUND
        return SimpleNamespace(request=request, getresponse=lambda: SimpleNamespace(status=status), close=lambda: None)

    monkeypatch.setattr(module.http.client, "HTTPConnection", connect)
    module.all_arrived()
    assert clock.now_s > 50.0 and asked[0].startswith("PUT")


def test_a_rendezvous_that_is_gone_is_not_waited_for_without_end(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object, **__: object) -> SimpleNamespace:
        raise ConnectionRefusedError

    monkeypatch.setattr(module.http.client, "HTTPConnection", connect)
    with pytest.raises(ConnectionError, match="rendezvous does not answer"):
        module.all_arrived()
    assert module.SILENT_S <= clock.now_s < 2 * module.SILENT_S


@pytest.mark.parametrize(("local", "beats"), [("3", 0), ("1", module.ALIVE_S)], ids=["one node", "several nodes"])
def test_a_rank_that_waits_says_that_it_lives_where_its_watchdog_hears_no_others(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, local: str, beats: float
) -> None:
    for name, value in {"RANK": "0", "SIZE": "3", "LOCAL_SIZE": local}.items():
        monkeypatch.setenv(f"HOROVOD_{name}", value)
    told: list[float] = []
    monkeypatch.setattr(module.pulse, "beat", lambda *, waits: told.append(clock.now_s) if waits else None)

    def ask(_store: object, method: str, name: str) -> int:
        """The second rank comes after most of the time, the third much later."""
        here = method == "PUT" or clock.now_s >= {"1": 0.9, "2": 3.0, module.ALL: 0.0}[name] * module.ALIVE_S
        return http.client.OK if here else http.client.NOT_FOUND

    monkeypatch.setattr(module._Store, "_ask", ask)
    module.all_arrived()
    assert clock.now_s >= 3 * module.ALIVE_S
    assert max(told, default=0.0) <= beats
    assert bool(told) == bool(beats)

"""How far a node's clock is off: asked of the broker, as control does."""

import socket
import time
from contextlib import suppress

import pytest

from tests.broker import broker
from worker import clock, heartbeat
from worker.clock import clock_ahead_s


class Broker:
    """Tells a time so many seconds from ours."""

    def __init__(self, off_s, wait_s=0.0):
        self.off_s, self.wait_s = off_s, wait_s

    def time(self):
        time.sleep(self.wait_s)
        whole_s, rest_s = divmod(time.time() + self.off_s, 1)
        return int(whole_s), int(rest_s * 1e6)


@pytest.mark.parametrize("off_s", [-7200.25, 0.0, 41.5])
def test_it_is_told_in_both_directions(off_s):
    assert clock_ahead_s(Broker(off_s)) == pytest.approx(-off_s, abs=0.5)


def test_an_answer_that_took_long_says_nothing(monkeypatch):
    monkeypatch.setattr(clock, "ROUND_TRIP_MAX_S", 0.01)
    assert clock_ahead_s(Broker(0.0, wait_s=0.05)) is None


def test_a_report_tells_it_and_without_a_broker_that_it_is_not_known(monkeypatch, tmp_path):
    monkeypatch.setenv("DLH_HOME", str(tmp_path))
    monkeypatch.delenv("DLH_REDIS_URL", raising=False)
    heartbeat._broker.cache_clear()
    assert heartbeat.report()["clock_ahead_s"] is None
    with broker(tmp_path) as url:
        monkeypatch.setenv("DLH_REDIS_URL", url)
        assert abs(heartbeat.report()["clock_ahead_s"]) < 1.0
        heartbeat._broker.cache_clear()


def test_a_broker_that_does_not_answer_is_asked_once_and_not_for_long(monkeypatch):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        silent.setblocking(False)
        monkeypatch.setenv("DLH_REDIS_URL", f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        monkeypatch.setattr(heartbeat, "ASK_S", 0.1)
        heartbeat._broker.cache_clear()
        assert heartbeat.own_clock_ahead_s() is None
        asked = []
        with suppress(BlockingIOError):
            while True:
                asked.append(silent.accept()[0])
        heartbeat._broker.cache_clear()
    for connection in asked:
        connection.close()
    assert len(asked) == 1


@pytest.mark.parametrize(("ahead_s", "expires_s"), [(-3600.0, 3620.0), (3600.0, 20.0), (None, 20.0)])
def test_what_a_node_says_is_not_out_of_date_because_its_clock_is_behind(monkeypatch, ahead_s, expires_s):
    sent = []
    monkeypatch.setattr(heartbeat, "own_clock_ahead_s", lambda: ahead_s)
    monkeypatch.setattr(
        heartbeat, "send_to_control", lambda task, arguments, *, expires_s: sent.append((task, arguments, expires_s))
    )
    heartbeat.Heartbeat._tell("control.node_report", lambda: "told")
    assert sent == [("control.node_report", ["told"], expires_s)]

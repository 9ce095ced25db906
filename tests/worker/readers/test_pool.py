"""How readers are kept: none for ever where none can be started, none where memory is short, none while steps are
timed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.waiting import wait_for
from tests.worker.readers.conftest import Seen
from worker import host_limits
from worker.readers.pool import COUNT, count_wanted
from worker.readers.reader import Reader
from worker.sandbox import SandboxError


@contextmanager
def kept(pool: Seen) -> Iterator[Seen]:
    keeper = threading.Thread(target=pool.keep, daemon=True)
    keeper.start()
    try:
        yield pool
    finally:
        pool.close()
        keeper.join(60)
    assert not keeper.is_alive()


def failing(tried: list[int]) -> Callable[[], Reader]:
    def start() -> Reader:
        tried.append(1)
        raise SandboxError("no sandbox can be made here")

    return start


def test_where_none_can_be_started_it_is_told_and_tried_ever_more_rarely(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = [0.0]
    monkeypatch.setattr("worker.readers.pool.time", SimpleNamespace(monotonic=lambda: clock[0]))
    tried: list[int] = []
    pool = Seen(started=failing(tried))
    with caplog.at_level(logging.WARNING):
        for moment_s, tries in ((0.0, 1), (29.0, 1), (31.0, 2), (90.0, 2), (92.0, 3)):
            clock[0] = moment_s
            pool._look_s()
            assert len(tried) == tries, moment_s
    assert len(caplog.records) == 3
    assert "no sandbox can be made here" in caplog.records[0].message


def test_none_is_started_while_memory_is_short_or_steps_are_timed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    pool = Seen(started=failing(tried))
    with pool.held():
        assert pool._look_s() > 0
    free = [1 << 30]
    monkeypatch.setattr(host_limits, "memory_available_bytes", lambda: free[0])
    assert pool._look_s() > 0
    assert tried == []
    free[0] = 8 << 30
    pool._look_s()
    assert tried == [1]


def test_those_that_wait_end_where_memory_runs_short(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kept(Seen()) as pool:
        pool.come_ready()
        (reader,) = pool.waiting()
        monkeypatch.setattr(host_limits, "memory_available_bytes", lambda: 1 << 20)
        pool._wake.set()
        wait_for(lambda: not pool.waiting())
        wait_for(lambda: not reader.slot.folder.exists())
        assert not reader.is_alive()


@pytest.mark.parametrize(("said", "count"), [("", COUNT), ("0", 0), ("3", 3), ("-1", COUNT), ("many", COUNT)])
def test_the_setting_says_how_many_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, said: str, count: int
) -> None:
    monkeypatch.setenv("DLH_READERS", said)
    assert count_wanted() == count
    assert bool(caplog.records) == (said in {"-1", "many"})


def test_with_none_wanted_nothing_is_started(home: Path) -> None:
    tried: list[int] = []
    Seen(0, started=failing(tried)).keep()
    assert tried == []

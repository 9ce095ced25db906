"""Work beside the training: in order, and its errors are not lost."""

from __future__ import annotations

import threading

import pytest

from worker.runtime.background import Background


def test_work_goes_on_beside_and_the_next_piece_waits_for_it() -> None:
    background, gate, done = Background(), threading.Event(), []

    def first() -> None:
        gate.wait()
        done.append(1)

    background.start(first)
    background.check()
    background.wait(0.0)
    assert done == []
    gate.set()
    background.start(lambda: done.append(2))
    background.wait()
    assert done == [1, 2]


def test_an_error_is_raised_once_where_the_end_is_looked_at() -> None:
    background, ended = Background(), threading.Event()

    def fail() -> None:
        ended.set()
        raise OSError("disk full")

    background.start(fail)
    with pytest.raises(OSError, match="disk full"):
        background.wait()
    background.wait()
    background.start(fail)
    with pytest.raises(OSError, match="disk full"):
        background.start(lambda: None)
    background.wait()

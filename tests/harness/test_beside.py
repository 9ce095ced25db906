"""Long work has a thread of its own: tasks of control do not wait for it."""

from __future__ import annotations

import threading

import pytest

from harness.beside import Beside
from tests.waiting import wait_for


def test_one_thread_is_at_it_and_who_wishes_it_meanwhile_has_it_done_once_more() -> None:
    may_end, begun, at_work, most = threading.Event(), [], [], []

    def work() -> None:
        at_work.append(len(begun))
        begun.append(threading.current_thread().name)
        most.append(len(at_work))
        may_end.wait(60.0)
        at_work.pop()

    beside = Beside("measuring", work)
    beside.begin()
    wait_for(lambda: begun)
    for _ in range(5):
        beside.begin()  # comes back while the first is at work
    assert begun == ["measuring"]
    may_end.set()
    wait_for(lambda: len(begun) == 2 and not beside.is_going_on)
    assert max(most) == 1


def test_as_many_threads_are_at_it_as_may_be_and_no_more() -> None:
    may_end, begun = threading.Event(), []

    def work() -> None:
        begun.append(threading.current_thread().name)
        may_end.wait(60.0)

    beside = Beside("sending", work, at_most=2)
    for count in (1, 2):
        beside.begin()
        wait_for(lambda count=count: len(begun) == count)
    for _ in range(3):
        beside.begin()
    assert [thread.name for thread in threading.enumerate()].count("sending") == 2
    may_end.set()
    wait_for(lambda: not beside.is_going_on)
    assert begun == ["sending"] * 3


def test_work_that_breaks_off_is_begun_anew_when_it_is_wished_again() -> None:
    begun: list[int] = []

    def work() -> None:
        begun.append(1)
        if len(begun) == 1:
            raise OSError("stale file handle")

    beside = Beside("measuring", work)
    for count in (1, 2):
        beside.begin()
        wait_for(lambda count=count: len(begun) == count and not beside.is_going_on)
    assert len(begun) == 2


def test_a_machine_without_a_thread_left_ends_nothing_for_good(monkeypatch) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    begun: list[int] = []
    beside = Beside("measuring", lambda: begun.append(1))
    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(threading.Thread, "start", no_thread)
        beside.begin()
    beside.begin()
    wait_for(lambda: begun and not beside.is_going_on)
    assert begun == [1]


def test_what_takes_long_keeps_no_task_of_control_waiting(monkeypatch) -> None:
    from harness.jobs.tasks import jobs_purge, sizes_measure

    may_end, begun = threading.Event(), []
    for module, name in ((jobs_purge, "_purging"), (sizes_measure, "_measuring")):
        beside = Beside(name, lambda name=name: (begun.append(name), may_end.wait(60.0)))
        monkeypatch.setitem(module.run.__globals__, name, beside)
    try:
        jobs_purge()
        sizes_measure()
        wait_for(lambda: sorted(begun) == ["_measuring", "_purging"])
    finally:
        may_end.set()
    assert len(begun) == 2

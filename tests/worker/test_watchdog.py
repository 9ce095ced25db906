"""When an attempt is ended for taking too long or too much."""

from __future__ import annotations

from typing import Any

from worker.events import Event, EventKind
from worker.plan import Limits
from worker.watchdog import PAUSE_MOST, PauseWatch, Watchdog, folder_bytes


def watchdog(**limits: Any) -> Watchdog:
    return Watchdog(Limits(**{"memory_bytes": 100, "disk_bytes": 100, "stall_s": 10.0, **limits}), 0.0)


def event(kind: EventKind, **data: Any) -> Event:
    return Event(kind=kind, job_id="j", token=1, rank=0, seq=0, time_s=0.0, data=data)


def test_the_same_step_again_is_no_progress() -> None:
    dog = watchdog()
    dog.saw(event(EventKind.PROGRESS, step=1), 5.0)
    dog.saw(event(EventKind.PROGRESS, step=1), 14.0)
    verdict = dog.check_time(15.1)
    assert verdict
    assert verdict.code == "stalled"


def test_what_waits_for_other_nodes_does_not_stall_until_they_are_there() -> None:
    dog = watchdog()
    for now_s in (9.0, 18.0, 27.0):
        dog.waits(now_s)
        assert dog.check_time(now_s) is None
    assert dog.check_time(36.0) is None
    assert dog.check_time(37.1)


def test_the_time_that_all_stood_still_is_no_time_without_progress() -> None:
    dog = watchdog(stall_s=300.0)
    dog.saw(event(EventKind.PROGRESS, step=1), 10.0)
    assert dog.check_time(11.0) is None
    frozen_s = 3600.0
    assert dog.check_time(11.0 + frozen_s) is None
    for second in range(12, 310):
        assert dog.check_time(second + frozen_s) is None
    assert dog.check_time(311.0 + frozen_s)


def test_a_new_step_phase_metric_or_checkpoint_is_progress() -> None:
    dog = watchdog()
    dog.saw(event(EventKind.PROGRESS, step=1, phase="train"), 9.0)
    dog.saw(event(EventKind.PROGRESS, step=1, phase="evaluate"), 18.0)
    dog.saw(event(EventKind.METRIC), 27.0)
    dog.saw(event(EventKind.CHECKPOINT), 36.0)
    assert dog.check_time(45.9) is None


def test_who_was_asked_to_pause_has_so_long_and_longer_where_an_evaluation_gets_on() -> None:
    pause = PauseWatch(100.0)
    assert not pause.is_overdue(1e9)
    pause.saw(event(EventKind.METRIC, values={}), 5.0)  # long before
    pause.asked(1000.0)
    assert not pause.is_overdue(1100.0)
    assert pause.is_overdue(1101.0)
    pause.saw(event(EventKind.METRIC, values={}), 1090.0)
    assert not pause.is_overdue(1190.0)
    assert pause.is_overdue(1191.0)


def test_who_makes_steps_or_gets_on_for_ever_is_not_waited_for() -> None:
    pause = PauseWatch(100.0)
    pause.asked(0.0)
    for now_s in range(0, 10_000, 10):
        pause.saw(event(EventKind.PROGRESS, step=now_s), now_s)
        pause.saw(event(EventKind.METRIC, values={"train/loss": 1.0}), now_s)
    assert pause.is_overdue(101.0)
    for now_s in range(0, 10_000, 10):
        pause.saw(event(EventKind.METRIC, values={}), now_s)
    assert not pause.is_overdue(100.0 * PAUSE_MOST)
    assert pause.is_overdue(100.0 * PAUSE_MOST + 1)


def test_a_note_is_no_progress() -> None:
    dog = watchdog()
    dog.saw(event(EventKind.NOTE, message="still here"), 9.0)
    assert dog.check_time(11.0)


def test_the_time_limit_holds_whatever_the_progress() -> None:
    dog = watchdog(wall_s=20.0)
    dog.saw(event(EventKind.PROGRESS, step=5), 20.0)
    verdict = dog.check_time(20.1)
    assert verdict
    assert verdict.code == "time_limit"


def test_memory_and_disk_are_told_apart() -> None:
    dog = watchdog()
    assert dog.check_use(memory_bytes=100, disk_bytes=100) is None
    memory, disk = dog.check_use(memory_bytes=101, disk_bytes=0), dog.check_use(memory_bytes=0, disk_bytes=101)
    assert memory
    assert disk
    assert (memory.code, disk.code) == ("out_of_memory", "disk_full")


def test_a_folder_is_measured_without_following_links(tmp_path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_bytes(b"x" * 8192)
    (tmp_path / "loop").symlink_to(tmp_path)
    assert 8192 <= folder_bytes(tmp_path) < 65536


def test_a_folder_that_cannot_be_measured_counts_as_full(tmp_path) -> None:
    for number in range(30):
        (tmp_path / str(number)).touch()
    assert folder_bytes(tmp_path, entries_max=30) is not None
    assert folder_bytes(tmp_path, entries_max=29) is None
    verdict = watchdog().check_use(memory_bytes=0, disk_bytes=None)
    assert verdict and verdict.code == "disk_full"


def test_files_hidden_in_deep_folders_are_not_overlooked(tmp_path) -> None:
    tmp_path.joinpath(*["d"] * 40).mkdir(parents=True)
    assert folder_bytes(tmp_path) is None

"""When an attempt is ended for taking too long or too much."""

from __future__ import annotations

from typing import Any

from tests.vanishing import first_vanishes
from worker.events import Event, EventKind
from worker.plan import Limits
from worker.warden import pause_note
from worker.watchdog import (
    LOAD_BYTES_PER_S,
    PATIENCE_MOST,
    PAUSE_MOST,
    STEP_PATIENCE,
    PauseWatch,
    Watchdog,
    folder_bytes,
)


def watchdog(**limits: Any) -> Watchdog:
    return Watchdog(Limits(**{"memory_bytes": 100, "disk_bytes": 100, "stall_s": 10.0, **limits}), 0.0)


def event(kind: EventKind, rank: int = 0, **data: Any) -> Event:
    return Event(kind=kind, job_id="j", token=1, rank=rank, seq=0, time_s=0.0, data=data)


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


def test_ranks_that_wait_for_other_nodes_live_but_do_not_hide_one_beside_them_that_stands_still() -> None:
    dog = Watchdog(Limits(memory_bytes=1, disk_bytes=1, stall_s=10.0), 0.0, ranks=2)
    waits = [event(EventKind.METRIC, rank, values={}, waits=1) for rank in (0, 1)]
    dog.saw(event(EventKind.METRIC, 1, values={}), 5.0)  # it reads its data
    dog.saw(waits[0], 12.0)
    assert dog.check_time(14.0) is None and dog.check_time(15.1)
    dog.saw(waits[1], 16.0)
    assert dog.check_time(25.0) is None
    dog.saw(waits[0], 25.0)
    assert dog.check_time(34.0) is None and dog.check_time(35.1)
    dog.saw(event(EventKind.METRIC, 1, values={}), 35.0)  # it goes on
    dog.saw(waits[0], 44.0)
    assert dog.check_time(45.1)


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


def test_a_run_with_long_steps_may_take_a_few_times_its_longest_step() -> None:
    dog = watchdog()
    for step, now_s in enumerate((4.0, 10.0, 16.0), 1):
        dog.saw(event(EventKind.PROGRESS, step=step), now_s)
        assert dog.check_time(now_s) is None
    assert dog.check_time(16.0 + STEP_PATIENCE * 6.0 - 0.1) is None
    verdict = dog.check_time(16.0 + STEP_PATIENCE * 6.0 + 0.1)
    assert verdict and verdict.code == "stalled" and "for 18 s" in verdict.message


def test_the_first_step_may_take_as_long_as_the_tried_model_promises() -> None:
    dog = watchdog()
    dog.saw(event(EventKind.METRIC, values={}, expected_step_s=50.0), 5.0)
    for second in range(6, 6 + 159):
        assert dog.check_time(float(second)) is None
    assert dog.check_time(166.0)


def test_a_better_guess_of_a_rank_replaces_its_first_one() -> None:
    dog = watchdog()
    for guess_s in (500.0, 4.0):  # by two rows, by many
        dog.saw(event(EventKind.METRIC, values={}, expected_step_s=guess_s), 1.0)
    dog.saw(event(EventKind.PROGRESS, step=1), 2.0)
    assert (dog.step_s, dog.stall_s) == (4.0, 12.0)


def test_what_a_program_says_of_its_steps_is_bounded_and_nonsense_is_nothing() -> None:
    dog = watchdog()
    for nonsense in (None, "long", True, -5.0, float("nan"), 10**400):
        dog.saw(event(EventKind.METRIC, values={}, expected_step_s=nonsense), 0.0)
    assert dog.stall_s == 10.0
    dog.saw(event(EventKind.METRIC, values={}, expected_step_s=1e8), 0.0)
    assert dog.stall_s == 10.0 * PATIENCE_MOST


def test_much_data_may_be_read_for_long_and_after_the_first_step_that_is_over() -> None:
    dog = Watchdog(Limits(memory_bytes=1, disk_bytes=1, stall_s=10.0), 0.0, data_bytes=100 * LOAD_BYTES_PER_S)
    for second in range(100):
        assert dog.check_time(float(second)) is None
    dog.saw(event(EventKind.PROGRESS, step=1), 100.0)
    for second in range(100, 110):
        assert dog.check_time(float(second)) is None
    assert dog.check_time(110.1)


def test_time_that_all_stood_still_makes_no_long_step() -> None:
    dog = watchdog()
    dog.saw(event(EventKind.PROGRESS, step=1), 1.0)
    assert dog.check_time(1.0) is None
    dog.saw(event(EventKind.PROGRESS, step=2), 3600.0)
    assert dog.stall_s == 10.0


def test_a_pause_waits_for_the_step_under_way() -> None:
    pause = PauseWatch(100.0)
    pause.asked(0.0)
    assert not pause.is_overdue(100.0 + STEP_PATIENCE * 60.0, step_s=60.0)
    assert pause.is_overdue(101.0 + STEP_PATIENCE * 60.0, step_s=60.0)


def test_who_pauses_a_run_with_long_steps_is_told_how_long_it_may_take() -> None:
    assert pause_note(2.0) == ""
    assert "40 s" in pause_note(40.0)
    assert "5 min" in pause_note(300.0)


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


def test_a_file_that_is_removed_while_its_folder_is_measured_hides_no_other_one(tmp_path, monkeypatch) -> None:
    for number in range(5):
        (tmp_path / str(number)).write_bytes(b"x" * 65536)
    first_vanishes(tmp_path, monkeypatch)
    assert folder_bytes(tmp_path) == 4 * 65536


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

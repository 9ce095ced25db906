"""Checkpoints of courses that were given up: kept as long as those of the run, and no longer."""

from __future__ import annotations

from pathlib import Path

import torch

from worker.runtime.aside import purge_aside, put_aside
from worker.runtime.checkpoint import CheckpointStore


def save(store: CheckpointStore, step: int) -> str:
    return store.save({"weight": torch.zeros(1)}, step=step, epoch=0.0, metric=None).name


def given_up(folder: Path) -> list[str]:
    return sorted(f"{path.parent.name}/{path.name}" for path in folder.glob("before-*/*"))


def test_of_all_that_was_ever_put_aside_the_newest_stay_as_many_as_the_run_keeps(tmp_path: Path) -> None:
    for attempt in (2, 9, 10, 10):
        store = CheckpointStore(tmp_path, keep=3, larger_is_better=True, token=attempt)
        put_aside(tmp_path, [save(store, step) for step in (5, 6)], attempt, desk=store.desk)
    (tmp_path / "before-attempt-of-mine").mkdir()  # nobody else's business
    assert len(given_up(tmp_path)) == 8
    save(store, 1)
    store.purge()
    kept = ["before-attempt-10-2/step-00000005", "before-attempt-10-2/step-00000006"]
    assert given_up(tmp_path) == sorted([*kept, "before-attempt-10/step-00000006"])
    assert [saved.step for saved in store.saved()] == [1]
    folders = {path.name for path in tmp_path.glob("before-*")}
    assert folders == {"before-attempt-10", "before-attempt-10-2", "before-attempt-of-mine"}


def test_a_step_of_nine_digits_is_newer_than_one_of_eight(tmp_path: Path) -> None:
    course = tmp_path / "before-attempt-1"
    for step in (99_999_999, 100_000_000):
        (course / f"step-{step:08d}").mkdir(parents=True)
    purge_aside(tmp_path, 1)
    assert given_up(tmp_path) == ["before-attempt-1/step-100000000"]


def test_where_nothing_was_put_aside_nothing_happens(tmp_path: Path) -> None:
    purge_aside(tmp_path / "not there", 1)
    purge_aside(tmp_path, 1)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_that_a_crash_left_half_replaced_is_put_aside_with_its_course(tmp_path: Path) -> None:
    old = CheckpointStore(tmp_path, keep=3, larger_is_better=True, token=1)
    save(old, 1)
    (tmp_path / save(old, 2)).rename(tmp_path / ".old-step-00000002")
    new = CheckpointStore(tmp_path, keep=3, larger_is_better=True, token=2)
    new.claim()
    assert [saved.step for saved in new.saved()] == [1, 2], "else it would come back after the others were put aside"

"""The fencing token of an old attempt can write no checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from worker.runtime import checkpoint
from worker.runtime.checkpoint import CheckpointStore, Superseded


def store(folder: Path, token: int) -> CheckpointStore:
    return CheckpointStore(folder, keep=2, larger_is_better=True, token=token)


def save(target: CheckpointStore, step: int) -> None:
    target.save({"token": torch.tensor(target.token)}, step=step, epoch=0.0, metric=None)


def test_after_a_newer_attempt_has_begun_the_older_one_writes_and_begins_nothing(tmp_path: Path) -> None:
    old, new = store(tmp_path, 1), store(tmp_path, 2)
    old.claim()
    save(old, 1)
    new.claim()
    with pytest.raises(Superseded, match="attempt 2"):
        save(old, 1)
    with pytest.raises(Superseded):
        old.claim()
    save(new, 2)
    assert {saved.step for saved in new.saved()} == {1, 2}
    assert int(new.load("step-00000001")["token"]) == 1


def test_a_newer_attempt_that_begins_while_an_older_one_writes_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = store(tmp_path, 1), store(tmp_path, 2)
    old.claim()
    original = checkpoint._write_state

    def overtaken(path: Path, state: dict) -> tuple[int, str]:
        monkeypatch.setattr(checkpoint, "_write_state", original)
        new.claim()
        save(new, 7)
        return original(path, state)

    monkeypatch.setattr(checkpoint, "_write_state", overtaken)
    with pytest.raises(Superseded):
        save(old, 7)
    assert int(new.load("step-00000007")["token"]) == 2


def test_the_same_attempt_claims_again_and_a_run_without_a_platform_needs_no_claim(tmp_path: Path) -> None:
    store(tmp_path, 3).claim()
    store(tmp_path, 3).claim()
    alone = store(tmp_path, 0)
    alone.claim()
    save(alone, 1)
    with pytest.raises(Superseded):
        store(tmp_path, 2).check()

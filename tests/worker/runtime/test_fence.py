"""The fencing token of an old attempt can write no checkpoint."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
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
    original = checkpoint.state_write

    def overtaken(path: Path, state: dict) -> tuple[int, str]:
        monkeypatch.setattr(checkpoint, "state_write", original)
        new.claim()
        save(new, 7)
        return original(path, state)

    monkeypatch.setattr(checkpoint, "state_write", overtaken)
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


CALLS = ("mkdir", "rename", "listdir", "fsync", "rmdir")
"""What an attempt asks of a disk besides reading and writing its own files."""
ACTS: dict[str, Callable[[CheckpointStore], object]] = {
    "claim": CheckpointStore.claim,
    "save": lambda old: save(old, 4),
    "save again": lambda old: save(old, 3),
    "purge": CheckpointStore.purge,
    "put aside": lambda old: old.leave_behind(["step-00000002", "step-00000003"]),
}
MOST_CALLS = 40


def begun(folder: Path) -> CheckpointStore:
    """The first attempt, with three checkpoints, of which it keeps two."""
    made = store(folder, 1)
    made.claim()
    for step in (1, 2, 3):
        save(made, step)
    return made


def seen(folder: Path) -> dict[str, int]:
    """Checkpoints that anybody would find, with the attempt that wrote them."""
    reader = store(folder, 2)
    return {saved.name: int(reader.load(saved.name)["token"]) for saved in reader.saved()}


def before_call(number: int, do: Callable[[], None], patch: pytest.MonkeyPatch) -> None:
    """`do` comes just before the call of that number, which then goes on."""
    left = [number]

    def hooked(call: Callable[..., object]) -> Callable[..., object]:
        def one(*args: object, **more: object) -> object:
            left[0] -= 1
            if left[0] == -1:
                do()
            return call(*args, **more)

        return one

    for name in CALLS:
        patch.setattr(os, name, hooked(getattr(os, name)))


@pytest.mark.parametrize("act", ACTS)
def test_an_attempt_that_stands_still_at_any_call_changes_nothing_after_a_newer_one_has_begun(
    tmp_path: Path, act: str
) -> None:
    passed = 0
    for number in range(MOST_CALLS):
        folder = tmp_path / str(number)
        old, new = begun(folder), store(folder, 2)
        found: list[dict[str, int]] = []

        def overtaken(new: CheckpointStore = new, found: list[dict[str, int]] = found) -> None:
            new.claim()
            assert {"step-00000002", "step-00000003"} <= set(seen(new.folder)), "nothing is lost on the way"
            for step in (3, 4, 5):
                save(new, step)
            found.append(seen(new.folder))

        with pytest.MonkeyPatch.context() as patch:
            before_call(number, overtaken, patch)
            try:
                ACTS[act](old)
            except (Superseded, OSError):
                assert found
        if not found:  # it was done before
            break
        passed += 1
        assert seen(folder) == found[0]
        assert {path.name for path in folder.glob(".writer-*")} == {".writer-2"}
        with pytest.raises(Superseded):
            store(folder, 1).check()
    assert 0 < passed < MOST_CALLS - 1


@pytest.mark.parametrize("act", ACTS)
def test_an_attempt_that_is_killed_at_any_call_loses_no_checkpoint(tmp_path: Path, act: str) -> None:
    for number in range(MOST_CALLS):
        folder = tmp_path / str(number)
        old = begun(folder)
        child = os.fork()
        if child == 0:
            before_call(number, lambda: os.kill(os.getpid(), signal.SIGKILL), pytest.MonkeyPatch())
            ACTS[act](old)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert os.waitstatus_to_exitcode(status) == 0
            break
        new = store(folder, 2)
        new.claim()
        aside = {path.name for path in folder.glob("before-attempt-*/step-*")}
        assert {"step-00000002", "step-00000003"} <= set(seen(folder)) | aside
        assert not [path for path in folder.iterdir() if path.name.startswith((".left-", ".old-", ".writer-1"))]
    assert number < MOST_CALLS - 1

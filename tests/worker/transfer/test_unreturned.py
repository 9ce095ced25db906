"""Which checkpoints of an older attempt, that lie on a node and never reached the store, count."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from worker.transfer.portal import Stopped
from worker.transfer.unreturned import Unreturned, unreturned

STATE = b"state" * 100


def save(work: Path, step: int, /, *, attempt: int = 3, **changes: Any) -> Path:
    """A whole checkpoint, as the runtime writes it, but for `changes` of its manifest."""
    folder = work / "checkpoints" / f"step-{step:08d}"
    folder.mkdir(parents=True)
    (folder / "state.pt").write_bytes(STATE)
    files = {"state.pt": {"bytes": len(STATE), "sha256": hashlib.sha256(STATE).hexdigest()}}
    body = {"format": 1, "step": step, "epoch": 1.5, "metric": 0.5, "files": files, "attempt": attempt, **changes}
    (folder / "MANIFEST.json").write_text(json.dumps(body))
    return folder


def never() -> bool:
    return False


def names(work: Path, resume_from: str | None = "step-00000100", course_from: int = 3) -> list[str]:
    return [one.name for one in unreturned(work, resume_from=resume_from, course_from=course_from, stopped=never)]


def test_those_beyond_where_the_attempt_was_to_go_on_count_the_oldest_first(tmp_path: Path) -> None:
    for step in (300, 100, 200, 50):
        save(tmp_path, step)
    found = unreturned(tmp_path, resume_from="step-00000100", course_from=3, stopped=never)
    assert found == [
        Unreturned(name=f"step-00000{step}", step=step, epoch=1.5, metric=0.5, bytes=len(STATE)) for step in (200, 300)
    ]
    assert names(tmp_path, None) == [f"step-{step:08d}" for step in (50, 100, 200, 300)]


def test_those_of_a_course_that_was_left_do_not_count(tmp_path: Path) -> None:
    save(tmp_path, 200, attempt=2)
    save(tmp_path, 300, attempt=4)
    assert names(tmp_path) == ["step-00000300"]


@pytest.mark.parametrize(
    "change",
    [{"step": 201}, {"epoch": "x"}, {"metric": float("inf")}, {"files": {}}, {"files": []}, {"attempt": None}],
    ids=str,
)
def test_one_whose_manifest_cannot_be_what_was_written_does_not_count(tmp_path: Path, change: dict[str, Any]) -> None:
    save(tmp_path, 200, **change)
    assert names(tmp_path) == []


def test_one_that_is_not_whole_does_not_count(tmp_path: Path) -> None:
    (save(tmp_path, 200) / "state.pt").write_bytes(STATE[:-1] + b"?")
    (save(tmp_path, 300) / "MANIFEST.json").unlink()
    (save(tmp_path, 400) / "state.pt").unlink()
    (save(tmp_path, 500) / "MANIFEST.json").write_text("[1]")
    (save(tmp_path, 600) / "MANIFEST.json").write_text("{")
    (save(tmp_path, 700) / "more").write_text("x")
    assert names(tmp_path) == []


def test_no_link_of_a_program_is_followed(tmp_path: Path) -> None:
    elsewhere = save(tmp_path / "elsewhere", 200)
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    (folder / elsewhere.name).symlink_to(elsewhere)
    state = save(tmp_path, 300) / "state.pt"
    state.unlink()
    state.symlink_to(elsewhere / "state.pt")
    os.mkfifo(folder / "step-00000400")
    assert names(tmp_path) == []


def test_who_does_not_wait_any_more_has_no_large_file_hashed_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.transfer.tree._BLOCK_BYTES", 1)
    save(tmp_path, 200)
    asked = iter([False] * 5 + [True])
    with pytest.raises(Stopped):
        unreturned(tmp_path, resume_from=None, course_from=3, stopped=lambda: next(asked))


@pytest.mark.parametrize("file", ["MANIFEST.json", "state.pt"])
def test_one_whose_disk_fails_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    for step in (200, 300):
        save(tmp_path, step)
    opened = os.open

    def failing(path: Any, *args: Any, **more: Any) -> int:
        if path == file and Path(f"/proc/self/fd/{more['dir_fd']}").readlink().name == "step-00000300":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return opened(path, *args, **more)

    monkeypatch.setattr("worker.telemetry.tail.os.open", failing)
    assert names(tmp_path) == ["step-00000200"]


def test_too_many_open_files_are_no_fault_of_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    save(tmp_path, 200)
    monkeypatch.setattr("worker.telemetry.tail.os.open", full)
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        names(tmp_path)

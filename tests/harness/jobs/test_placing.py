"""A returned checkpoint takes the place of older ones: a kill at any step, and a disk that refuses one, lose none."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.jobs.control.placing import checkpoint_place, checkpoints_claim, checkpoints_remove

OLD, SAME, NEW = "step-00000005", "step-00000010", b"newer"
KILLED = """
import os, signal, sys
from pathlib import Path
from harness.jobs.control import placing

left = int(sys.argv[2])
def counted(call):
    def one(*args, **more):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **more)
    return one
os.rename, os.fsync = counted(os.rename), counted(os.fsync)
root = Path(sys.argv[1])
placing.checkpoint_place(root, "work/checkpoints", "step-00000010", staged=root / "staged", gone=root / "gone")
placing.checkpoints_remove(root, "work/checkpoints", ["step-00000005"], gone=root / "gone")
"""


@pytest.fixture
def root(tmp_path):
    """Two checkpoints, and a newer one of the second's name that is to be placed."""
    for name, body in ((OLD, b"old"), (SAME, b"same")):
        folder = tmp_path / "work" / "checkpoints" / name
        folder.mkdir(parents=True)
        (folder / "state.pt").write_bytes(body)
    for name in ("staged", "gone"):
        (tmp_path / name).mkdir()
    (tmp_path / "staged" / "state.pt").write_bytes(NEW)
    return tmp_path


def there(root: Path) -> dict[str, bytes]:
    found = (root / "work" / "checkpoints").glob("*/state.pt")
    return {path.parent.name: path.read_bytes() for path in found}


def place(root: Path) -> None:
    checkpoint_place(root, "work/checkpoints", SAME, staged=root / "staged", gone=root / "gone")
    checkpoints_remove(root, "work/checkpoints", [OLD], gone=root / "gone")


def test_the_older_ones_go_once_the_newer_is_in_place(root):
    place(root)
    assert there(root) == {SAME: NEW}


def killed_after(root: Path, calls: int) -> bool:
    """Whether the placing was killed before its call of that number to rename or flush; else it came to its end."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(root), str(calls)], check=False)
    assert done.returncode in {0, -signal.SIGKILL}
    return done.returncode != 0


@pytest.mark.parametrize("calls", range(8))
def test_a_kill_at_any_step_leaves_the_older_ones_or_the_newer_in_place(root, calls):
    if not killed_after(root, calls):
        assert calls == 7 and there(root) == {SAME: NEW}
        return
    left = there(root)
    assert left.get(SAME) == NEW or left[OLD] == b"old"
    checkpoints_claim(root, "work/checkpoints", 2)
    taken_back = there(root)
    assert taken_back[SAME] in {b"same", NEW} and (taken_back[SAME] == NEW or OLD in taken_back)
    if (root / "staged").exists():  # the node asks again
        place(root)
    else:
        checkpoints_remove(root, "work/checkpoints", [OLD], gone=root / "gone")
    assert there(root)[SAME] == NEW and OLD not in there(root)


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE])
def test_a_disk_that_refuses_the_newer_keeps_the_older_ones(root, monkeypatch, code):
    rename = os.rename

    def refused(source, *args, **more):
        if source == root / "staged":
            raise OSError(code, os.strerror(code))
        return rename(source, *args, **more)

    with monkeypatch.context() as patch, pytest.raises(OSError, match=os.strerror(code)):
        patch.setattr(os, "rename", refused)
        place(root)
    assert there(root) == {OLD: b"old", SAME: b"same"} and not list((root / "gone").iterdir())
    place(root)
    assert there(root) == {SAME: NEW}


def test_a_real_refusal_keeps_the_older_ones(root):
    (root / "staged" / "state.pt").unlink()
    (root / "staged").rmdir()
    with pytest.raises(FileNotFoundError):
        place(root)
    assert there(root) == {OLD: b"old", SAME: b"same"}


def test_what_was_replaced_and_left_behind_goes_with_the_next_one(root):
    """A kill came between the newer one's coming and the older one's going."""
    left = root / "work" / "checkpoints" / f".old-{SAME}"
    left.mkdir()
    (left / "state.pt").write_bytes(b"oldest")
    checkpoints_claim(root, "work/checkpoints", 2)
    assert there(root)[SAME] == b"same"
    place(root)
    assert there(root) == {SAME: NEW}

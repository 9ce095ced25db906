"""The cache of a node: contents by hash and folders of jobs, limited in size, the least recently used removed first.

What is in use is locked (`flock`) by the process that uses it: the kernel lets go of the lock when that process ends,
however it ends, so nothing in use is ever removed and nothing is kept for the dead.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any

from worker.transfer.portal import Stopped, TransferError
from worker.trees import tree_bytes, tree_remove
from worker.words import size_words

KINDS = ("contents", "incoming", "jobs", "damaged")
STARTING = "starting"
"""No entry: held while what a run needs is brought. What is fetched ahead of others waits meanwhile."""
AHEAD = "ahead"
"""No entry either: locked while something is fetched ahead."""
DAMAGES_MAX = 100
"""So many of the newest damages are kept in mind, with the names of `DAMAGED_FILES_MAX` files each."""
DAMAGED_FILES_MAX = 10
DAMAGED_LATELY_S = 30 * 86400
"""So long a damage is told."""
YOUNG_S = 60.0
"""What was used so short a time ago stays: whoever asked for it may be about to lock it."""
LOOK_S = 0.1
UNRETURNED = "unreturned"
"""File in a job's folder: it holds what the store does not have, and nothing but that job's end removes it."""
SPARE_SHARE = 0.1
"""Of the disk, which runs write to as well: nothing that can wait is put there."""


class CacheFull(TransferError):
    """There is no room, even without all that nobody uses."""


class Hold:
    """A lock on one entry, given up by `release` or by the end of the process."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        """Give it up; again does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Cache:
    """The folder `root`. Entries: `contents/<digest>`, `incoming/<digest>`, `jobs/<id>` and `damaged/<digest>.<n>`."""

    def __init__(self, root: Path, limit_bytes: int) -> None:
        self.root, self.limit_bytes = root, limit_bytes

    def path(self, name: str) -> Path:
        """Where an entry lies."""
        return self.root / name

    def hold(self, name: str) -> Hold:
        """Keep an entry from being removed. Many may hold one."""
        found = self._lock(name, fcntl.LOCK_SH)
        assert found is not None  # noqa: S101 - a blocking lock is got
        return found

    @contextmanager
    def holding(self, name: str) -> Iterator[None]:
        """`hold` it within."""
        hold = self.hold(name)
        try:
            yield
        finally:
            hold.release()

    @contextmanager
    def alone(self, name: str, stopped: Callable[[], bool]) -> Iterator[None]:
        """Be the only one that makes an entry. Raises `Stopped`."""
        while (hold := self._lock(name, fcntl.LOCK_EX | fcntl.LOCK_NB)) is None:
            if stopped():
                raise Stopped("it is not wanted any more")
            time.sleep(LOOK_S)
        try:
            yield
        finally:
            if not self.path(name).exists():  # it has moved to its place
                self._lock_path(name).unlink(missing_ok=True)
            hold.release()

    def _lock_path(self, name: str) -> Path:
        return self.root / "locks" / name.replace("/", "-")

    def _lock(self, name: str, how: int) -> Hold | None:
        """Lock an entry and note its use; None where another process has it and `how` says not to wait."""
        path = self._lock_path(name)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, how)
                # Whoever removed the entry removed this file as well: then the lock is on nothing.
                if path.stat().st_ino == os.fstat(fd).st_ino:
                    os.utime(fd)
                    return Hold(fd)
            except BlockingIOError:
                os.close(fd)
                return None
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)

    def is_held(self, name: str) -> bool:
        """Whether somebody holds it now."""
        before_s = self._used_s(name)
        hold = self._lock(name, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if hold is not None:
            os.utime(self._lock_path(name), (before_s, before_s))  # a look is no use of it
            hold.release()
        return hold is None

    def unreturned(self) -> list[str]:
        """Entries with something that the store does not have."""
        return [f"jobs/{path.parent.name}" for path in (self.root / "jobs").glob(f"*/{UNRETURNED}")]

    def contents(self) -> set[str]:
        """Digests of what lies here."""
        return {path.name for path in _children(self.root / "contents")}

    def put_aside(self, digest: str, inode: int, files: Sequence[str]) -> bool:
        """Take a content away that was found damaged, in use or not; False where another has done so (`inode`).

        Who uses it keeps it under another name, and its hold goes with it. Call with its `incoming/` locked alone.
        Raises `OSError`.
        """
        place, aside = self.path(f"contents/{digest}"), f"damaged/{digest}.{time.time_ns()}"
        try:
            if place.stat().st_ino != inode:
                return False
            self.path(aside).parent.mkdir(exist_ok=True, mode=0o700)
            place.rename(self.path(aside))
        except FileNotFoundError:
            return False
        with contextlib.suppress(FileNotFoundError):
            self._lock_path(f"contents/{digest}").rename(self._lock_path(aside))
        self._damage_note(digest, files[:DAMAGED_FILES_MAX], tree_bytes(self.path(aside)))
        return True

    def _damage_note(self, digest: str, files: Sequence[str], size_bytes: int) -> None:
        """Keep a damage in mind; a run and the agent may do so at once."""
        told = {"digest": digest, "files": list(files), "bytes": size_bytes, "at_s": time.time()}
        notes = self.root / "damages"
        with contextlib.suppress(OSError), self.alone(notes.name, lambda: False):
            draft = notes.with_suffix(".new")
            draft.write_text("".join(json.dumps(row) + "\n" for row in [*self.damages(), told][-DAMAGES_MAX:]))
            draft.replace(notes)

    def aside_remove(self) -> None:
        """Remove what was put aside and nobody uses any more."""
        for path in _children(self.root / "damaged"):
            self.remove(f"damaged/{path.name}")

    def damages(self) -> list[dict[str, Any]]:
        """The newest contents that were put aside: `digest`, `files` where known, `bytes`, `at_s` (Unix time)."""
        try:
            lines = (self.root / "damages").read_text(errors="replace").splitlines()
        except OSError:
            return []
        return [row for line in lines[-DAMAGES_MAX:] if (row := _damage_read(line)) is not None]

    def damages_lately(self, now_s: float) -> list[dict[str, Any]]:
        """Those that are young enough to be told."""
        return [row for row in self.damages() if now_s - row["at_s"] < DAMAGED_LATELY_S]

    def want(self, digest: str) -> None:
        """Have a content looked through soon."""
        mark = self.root / "wanted" / digest
        with contextlib.suppress(OSError):  # it has its turn within a day anyway
            mark.parent.mkdir(exist_ok=True, mode=0o700)
            mark.touch()

    def wanted(self) -> set[str]:
        """Digests that somebody wants looked through."""
        return {path.name for path in _children(self.root / "wanted")}

    def wanted_drop(self, digest: str) -> None:
        """It is being looked through."""
        (self.root / "wanted" / digest).unlink(missing_ok=True)

    def used_bytes(self) -> int:
        """Of all entries."""
        return sum(tree_bytes(self.path(name)) for name in self._names())

    def _names(self) -> list[str]:
        """Entries, the one unused for longest first."""
        names = [f"{kind}/{path.name}" for kind in KINDS for path in _children(self.root / kind)]
        return sorted(names, key=self._used_s)

    def _used_s(self, name: str) -> float:
        """When an entry was last used (Unix time); 0 where nobody knows."""
        try:
            return self._lock_path(name).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    def room_make(self, need_bytes: int, *, kept: Collection[str] = (), spare: bool = False) -> int:
        """Remove what was unused for longest until `need_bytes` more fit; return how many bytes went.

        `kept`: digests that jobs which wait are going to need: these go last, and with `spare` not at all; then
        the disk keeps some room, too.
        Raises `CacheFull`. Call with no entry locked alone but the one that is being made.
        """
        if need_bytes > self.limit_bytes:
            raise CacheFull(_no_room(need_bytes, self.limit_bytes))
        if spare and (disk := shutil.disk_usage(self.root)).free - need_bytes < SPARE_SHARE * disk.total:
            raise CacheFull(f"{size_words(need_bytes)} more would fill the disk of the node's cache.")
        self._gone_clear()
        free_bytes = self.limit_bytes - self.used_bytes()
        removed = 0
        for name, is_kept in sorted(((name, _digest_of(name) in kept) for name in self._names()), key=itemgetter(1)):
            if need_bytes <= free_bytes + removed:
                return removed
            # A use that is still to come is one from before the clock was set back.
            is_young = abs(time.time() - self._used_s(name)) < YOUNG_S
            may_go = not spare if is_kept else not is_young
            if may_go and not (self.path(name) / UNRETURNED).exists():
                removed += self.remove(name)
        if need_bytes > free_bytes + removed:
            raise CacheFull(_no_room(need_bytes, self.limit_bytes))
        return removed

    def _gone_clear(self) -> None:
        """Remove what was on its way out when its process was killed."""
        for path in _children(self.root / "gone"):
            if not Path("/proc", path.name.rpartition(".")[2]).exists():
                tree_remove(path)

    def remove(self, name: str) -> int:
        """Remove an entry unless somebody uses it; its size, 0 where it stays."""
        before_s = self._used_s(name)
        hold = self._lock(name, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if hold is None:
            return 0
        try:
            size = tree_bytes(self.path(name))
            gone = self.root / "gone" / f"{name.replace('/', '-')}-{time.time_ns()}.{os.getpid()}"
            gone.parent.mkdir(exist_ok=True, mode=0o700)
            with contextlib.suppress(FileNotFoundError):
                self.path(name).rename(gone)  # out of sight in one moment: never half an entry
            tree_remove(gone)
            self._lock_path(name).unlink(missing_ok=True)
            return size
        except OSError:
            os.utime(self._lock_path(name), (before_s, before_s))
            return 0
        finally:
            hold.release()


def _digest_of(name: str) -> str:
    """Of a content that is here or on its way; empty for an entry of another kind."""
    kind, _, digest = name.partition("/")
    return digest if kind in {"contents", "incoming"} else ""


def _no_room(need_bytes: int, limit_bytes: int) -> str:
    return (
        f"The node's cache of {size_words(limit_bytes)} has no room for {size_words(need_bytes)} beside what is in use."
    )


def _damage_read(line: str) -> dict[str, Any] | None:
    """A line of the file of damages; None where it is none, such as half of one."""
    try:
        row = json.loads(line)
        return {"digest": str(row["digest"]), "files": [str(name) for name in row["files"]],
                "bytes": int(row["bytes"]), "at_s": float(row["at_s"])}  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return None


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []

"""Memory and process limits by cgroups, where this process may write them (version 1 and 2)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from worker.home import home

ROOT = Path("/sys/fs/cgroup")
PARENT = "dlh"
BESIDE = ROOT / "unified"
"""Where version 2 lies beside version 1."""


@dataclass(frozen=True)
class Cgroup:
    """One control group per sandbox: one folder (version 2) or one per controller (version 1)."""

    folders: tuple[Path, ...]
    version: int
    network: Path | None = None
    """The group of version 2 that holds an address filter (`egress`); beside version 1 a folder more."""

    @property
    def _all(self) -> list[Path]:
        return list(dict.fromkeys((*self.folders, *((self.network,) if self.network else ()))))

    @property
    def procs_files(self) -> list[Path]:
        """Files a process writes `0` to, in order to join."""
        return [folder / "cgroup.procs" for folder in self._all]

    def pids(self) -> set[int]:
        """Processes inside."""
        found: set[int] = set()
        for file in self.procs_files:
            with contextlib.suppress(OSError):
                found |= {int(line) for line in file.read_text().split()}
        return found

    def oom_kills(self) -> int:
        """How often the kernel ended a process here because memory ran out."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        for folder in self.folders:
            with contextlib.suppress(OSError, ValueError):
                lines = (line.split() for line in (folder / name).read_text().splitlines())
                return next(int(value) for key, value in lines if key == "oom_kill")
        return 0

    def kill(self) -> None:
        """SIGKILL everything inside, without waiting."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def remove(self) -> bool:
        """Remove the empty group; False while processes are still leaving."""
        for folder in self._all:
            with contextlib.suppress(FileNotFoundError):
                try:
                    folder.rmdir()
                except OSError:
                    return False
        return True


@lru_cache(maxsize=1)
def hierarchies() -> tuple[int, tuple[Path, ...]]:
    """(version, parent folders) usable for limits; version 0 with the folders empty where there are none."""
    unified = ROOT / "cgroup.controllers"
    if unified.exists():
        return (2, (ROOT / PARENT,)) if _make_v2_parent() else (0, ())
    folders = tuple(ROOT / controller / PARENT for controller in ("memory", "pids"))
    try:
        for folder in folders:
            folder.mkdir(exist_ok=True)
            if not os.access(folder / "cgroup.procs", os.W_OK):
                return 0, ()
    except OSError:
        return 0, ()
    return 1, folders


def _make_v2_parent() -> bool:
    parent = ROOT / PARENT
    try:
        parent.mkdir(exist_ok=True)
        for folder in (ROOT, parent):
            enabled = (folder / "cgroup.subtree_control").read_text().split()
            if missing := {"memory", "pids"} - set(enabled):
                (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(missing)))
    except OSError:
        return False
    return True


def named(name: str) -> Cgroup:
    """The group of a sandbox of this installation; it has no folders where cgroups cannot be used.

    Installations on one host share the parent, and a restored one has the job ids of the one it was copied from:
    without the mark of their homes the end of a run here would kill its twin there.
    """
    version, parents = hierarchies()
    own = f"{_mark()}-{name}"
    network = parents[0] / own if version == 2 else None
    if version == 1 and os.access(BESIDE / "cgroup.procs", os.W_OK):
        network = BESIDE / PARENT / own
    return Cgroup(tuple(parent / own for parent in parents), version, network)


def _mark() -> str:
    return hashlib.sha256(str(home()).encode()).hexdigest()[:12]


def older(age_s: float) -> list[str]:
    """Names of this installation's sandboxes whose groups were made so long ago."""
    _, parents = hierarchies()
    found = []
    for folder in parents[0].glob(f"{_mark()}-*") if parents else ():
        with contextlib.suppress(FileNotFoundError):
            if time.time() - folder.stat().st_mtime > age_s:
                found.append(folder.name.removeprefix(f"{_mark()}-"))
    return found


def _makes(folder: Path) -> bool:
    try:
        folder.mkdir(exist_ok=True, parents=True)
    except OSError:
        return False
    return True


def create(name: str, memory_bytes: int | None, processes: int, *, network: bool = False) -> Cgroup | None:
    """A fresh group with limits, or None where cgroups cannot be used. `network`: one that can hold a filter."""
    group = named(name)
    if not group.folders:
        return None
    if group.network is not None and not (network and _makes(group.network)):
        group = replace(group, network=None)
    try:
        for folder in group.folders:
            folder.mkdir(exist_ok=True)
        (group.folders[-1] / "pids.max").write_text(str(processes))
        if memory_bytes is not None:
            _limit_memory(group, memory_bytes)
    except OSError:
        group.remove()
        return None
    return group


def _limit_memory(group: Cgroup, memory_bytes: int) -> None:
    folder = group.folders[0]
    if group.version == 2:
        (folder / "memory.max").write_text(str(memory_bytes))
        with contextlib.suppress(OSError):
            (folder / "memory.swap.max").write_text("0")
        return
    (folder / "memory.limit_in_bytes").write_text(str(memory_bytes))
    with contextlib.suppress(OSError):
        (folder / "memory.memsw.limit_in_bytes").write_text(str(memory_bytes))

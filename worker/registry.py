"""Which attempts run on this node, and which fencing tokens it has seen: files, so that any process can look.

An attempt's supervisor is known by process id and start time, so a reused id is never mistaken for it. The time counts
from the start of the host: one by the wall clock is another one as soon as the clock is set, and all would seem dead.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from worker import devices
from worker.home import node_name, run_dir
from worker.plan import RunPaths


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One supervisor."""

    job_id: str
    token: int
    job_dir: str
    pid: int
    created_s: float
    """Start time of the process (`process_created_s`)."""
    part: str = ""
    """As in `RunPaths`."""
    boot_id: str = field(default_factory=devices.boot_id)
    """Of the host when it was started."""

    @property
    def rebooted(self) -> bool:
        """The host was started anew since."""
        return self.boot_id != devices.boot_id()

    def process(self) -> psutil.Process | None:
        """The supervisor if it still lives."""
        if self.rebooted:
            return None
        try:
            process = psutil.Process(self.pid)
            same = process_created_s(self.pid) == self.created_s and process.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, OSError):
            return None
        return process if same else None

    @property
    def paths(self) -> RunPaths:
        """Files of the job."""
        return RunPaths(Path(self.job_dir), self.part)

    @property
    def sandbox_name(self) -> str:
        """Of its sandbox on this host."""
        return sandbox_name(self.job_id, self.token, self.part)


def process_created_s(pid: int) -> float:
    """Seconds from the start of the host to that of a process. Raises `OSError` where there is none."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()  # what comes after the name
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def sandbox_name(job_id: str, token: int, part: str) -> str:
    """Unique on a host, also where two nodes of one gang run on it."""
    return f"{job_id}-{token}" + (f"-{part}" if part else "")


def write_json(path: Path, text: str) -> None:
    """Write whole or not at all, and keep through a power cut. Raises `OSError` that names the file."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        error.filename = error.filename or str(partial)  # a write tells none, and it may be any of two disks
        raise
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)  # else the name may still be the old file's after it
    finally:
        os.close(folder)


def _folder() -> Path:
    return run_dir("attempts", node_name())


def add(entry: Entry) -> None:
    """Remember a supervisor that was started."""
    text = json.dumps(asdict(entry))
    write_json(entry.paths.pid_file(entry.token), text)
    write_json(_folder() / f"{entry.job_id}-{entry.token}.json", text)


def enter(paths: RunPaths, job_id: str, token: int) -> bool:
    """Remember this process as the supervisor of an attempt; False where another one lives.

    It does so itself as well as the agent, which may be killed between starting it and writing that down.
    """
    before = find(paths, token)
    if before is not None and before.pid != os.getpid() and before.process() is not None:
        return False
    created_s = process_created_s(os.getpid())
    add(
        Entry(
            job_id=job_id, token=token, job_dir=str(paths.root), pid=os.getpid(), created_s=created_s, part=paths.part
        )
    )
    return True


def remove(job_id: str, token: int) -> None:
    """Forget it."""
    (_folder() / f"{job_id}-{token}.json").unlink(missing_ok=True)


def entries() -> list[Entry]:
    """All remembered, dead ones included."""
    found = []
    for file in sorted(_folder().glob("*.json")):
        with contextlib.suppress(OSError, ValueError, TypeError):
            found.append(Entry(**json.loads(file.read_text())))
    return found


def find(paths: RunPaths, token: int) -> Entry | None:
    """The supervisor of one attempt, by its pid file."""
    try:
        return Entry(**json.loads(paths.pid_file(token).read_text()))
    except (OSError, ValueError, TypeError):
        return None


@contextlib.contextmanager
def locked(paths: RunPaths) -> Iterator[None]:
    """Only one start or stop per job at a time."""
    paths.root.mkdir(parents=True, exist_ok=True)
    with (paths.root / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def fence_read(paths: RunPaths) -> int:
    """Highest token this node has seen for the job; 0 before the first."""
    try:
        return int(paths.fence.read_text())
    except (OSError, ValueError):
        return 0


def fence_raise(paths: RunPaths, token: int) -> bool:
    """Raise the fence to `token`; False where a higher one was seen. Call with the job locked."""
    seen = fence_read(paths)
    if token < seen:
        return False
    if token > seen:
        write_json(paths.fence, str(token))
    return True

"""Find out how strongly this host can shut a program in, and why not more strongly.

What is missing here (bubblewrap, root) is looked for once. A trial run may also fail because the machine is busy: then
the level that was proven counts, and the higher ones are tried again from time to time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

from worker import trees
from worker.home import REPOSITORY, data_roots
from worker.sandbox import cgroup, enter, seccomp, uids
from worker.sandbox.model import SandboxError, SandboxLevel, SandboxLimits, SandboxSpec

_TRIAL_S = 20.0
_SIGNALS_ABI = 6
"""Version of landlock from which on it keeps signals and abstract sockets in."""
AGAIN_S, AGAIN_MOST_S = 60.0, 3600.0
"""Levels whose trial failed are tried again after so long, and each time after twice as long."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """What the host offers. `level` and `reason` are filled by `host`."""

    bwrap: str
    """Path of bubblewrap; empty where it is missing."""
    seccomp_problem: str
    landlock_abi: int
    has_cgroups: bool
    uid_reaches_us: bool
    """Root only: another user id could run our Python, read our packages and come as far as our data by their paths,
    without mounts of its own; within our data `trees.let_through` opens the way."""
    level: SandboxLevel = SandboxLevel.L0
    reason: str = ""
    """Why no higher level works here; empty at the highest."""
    tried: SandboxLevel = SandboxLevel.L0
    """The highest level of which nothing is missing; above `level` where trial runs failed, which may pass."""

    def gives_uid(self, level: SandboxLevel) -> bool:
        """Whether each program at `level` runs with a user id of its own."""
        return os.getuid() == 0 and (level >= SandboxLevel.L2 or self.uid_reaches_us)

    def to_dict(self) -> dict[str, object]:
        """Plain values for a report."""
        return asdict(self)


@lru_cache(maxsize=1)
def ingredients() -> Host:
    """Look, without trying anything."""
    try:
        seccomp.program()
        problem = ""
    except (ImportError, OSError, RuntimeError) as error:
        problem = f"seccomp filter not available ({error}); install libseccomp2"
    root = os.getuid() == 0
    return Host(
        bwrap=shutil.which("bwrap") or "",
        seccomp_problem=problem,
        landlock_abi=enter.landlock_abi(),
        has_cgroups=root and cgroup.hierarchies()[0] > 0,
        uid_reaches_us=root and _others_reach(sys.executable, REPOSITORY / "worker", data_roots()),
    )


def look() -> Host:
    """The strongest level that a trial run proves now. Raises `SandboxError` where not even the lowest works."""
    found = ingredients()
    reasons: list[str] = []
    tried: SandboxLevel | None = None
    for level in sorted(SandboxLevel, reverse=True):
        missing = _missing(found, level)
        if not missing and tried is None:
            tried = level
        problem = missing or _trial(level)
        if not problem:
            if os.getuid() == 0 and not found.gives_uid(level):
                reasons.append(
                    "programs run as root, without capabilities: no other user id reaches this Python, its packages or "
                    "the data"
                )
            return replace(found, level=level, reason="; ".join(reasons), tried=tried or level)
        reasons.append(f"L{level}: {problem}")
    raise SandboxError("No program can be started on this host: " + "; ".join(reasons))


class Finding:
    """What was found last. Who asks waits for the first look alone: later ones go on beside, as they may take long."""

    def __init__(self, look: Callable[[], Host] = look, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._look, self._clock_s = look, clock_s
        self._lock = threading.Lock()
        self._host: Host | None = None
        self._wait_s = AGAIN_S
        self._due_s = float("inf")

    def host(self) -> Host:
        """The level and why not more. Raises `SandboxError` as `look` does, and looks anew when asked again."""
        with self._lock:  # two looks at once would have the same names for their trials
            if self._host is None:
                self._keep(self._look())
            elif self._clock_s() >= self._due_s:
                self._due_s = float("inf")
                threading.Thread(target=self._look_again, name="sandbox-level", daemon=True).start()
            assert self._host is not None  # noqa: S101 - `_keep` has set it
            return self._host

    def _keep(self, found: Host) -> None:
        """A level once proven stays: a busy machine does not take it away."""
        if self._host is None or found.level > self._host.level:
            self._host = found
        self._due_s = self._clock_s() + self._wait_s if found.tried > self._host.level else float("inf")
        self._wait_s = min(AGAIN_MOST_S, 2 * self._wait_s)

    def _look_again(self) -> None:
        try:
            found = self._look()
        except (SandboxError, OSError):
            found = self.host()
        with self._lock:
            self._keep(found)


_finding = Finding()


def host() -> Host:
    """The strongest level that was proven on this host, with the reason why not more."""
    return _finding.host()


def _missing(found: Host, level: SandboxLevel) -> str:
    """What `level` lacks, by the setting and the ingredients."""
    if level > int(os.environ.get("DLH_SANDBOX_MAX_LEVEL", SandboxLevel.L3)):
        return "not wanted here (DLH_SANDBOX_MAX_LEVEL)"
    if level >= SandboxLevel.L2 and not found.bwrap:
        return "bubblewrap is not installed (Debian: apt install bubblewrap)"
    if level >= SandboxLevel.L1 and found.seccomp_problem:
        return found.seccomp_problem
    if level == SandboxLevel.L3 and os.getuid() != 0:
        return "an own user id for each run needs the agent to run as root"
    if level == SandboxLevel.L3 and not found.has_cgroups:
        return "cgroup limits on memory and processes cannot be written here"
    if level == SandboxLevel.L1 and not found.landlock_abi:
        return "the kernel offers no landlock"
    if level == SandboxLevel.L1 and found.landlock_abi < _SIGNALS_ABI and not found.gives_uid(level):
        return (
            "a program without a user id of its own could end other processes: run the agent as root, or on a kernel "
            f"that keeps signals in (Linux 6.12 with landlock {_SIGNALS_ABI}; this one has {found.landlock_abi})"
        )
    return ""


def _trial(level: SandboxLevel) -> str:
    """Run a trivial program at `level`; the problem in words, or nothing."""
    from worker.sandbox import run

    limits = SandboxLimits(memory_bytes=256 << 20)
    spec = SandboxSpec(
        name=f"trial-{os.getpid()}-{level}", argv=(sys.executable, "-I", "-S", "-c", "pass"),
        workdir=Path("/"), limits=limits,
    )  # fmt: skip
    try:
        process = run.start(spec, at_level=level, stderr=subprocess.PIPE)
    except (OSError, SandboxError) as error:
        return str(error)
    try:
        _, stderr = process.popen.communicate(timeout=_TRIAL_S)
    except subprocess.TimeoutExpired:
        return f"trial run did not end in {_TRIAL_S:.0f} s"
    finally:
        process.close()
    if process.popen.returncode == 0:
        return ""
    return stderr.decode(errors="replace").strip()[-300:] or f"trial run ended with {process.popen.returncode}"


def _others_reach(program: str, package: Path, data: Iterable[Path]) -> bool:
    """Ask the kernel: can the first sandbox user id execute `program`, read `package` and come to the roots of data?

    Within those it is let through as far as they are ours.
    """
    uid = uids.uid_range()[0]
    if not all(trees.lets_through(root.stat(), uids.way_gid()) for root in data if root.exists()):
        return False
    look = "import os, sys; os.listdir(sys.argv[1]); [os.stat(path + '/.') for path in sys.argv[2:]]"
    above = {str(next(folder for folder in root.parents if folder.exists())) for root in data}
    try:
        done = subprocess.run(
            [program, "-I", "-S", "-c", look, str(package), *sorted(above)], user=uid, group=uid, extra_groups=[],
            capture_output=True, timeout=_TRIAL_S, env={}, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0

"""Find out, once, how strongly this host can shut a program in, and why not more strongly."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

from worker.sandbox import cgroup, enter, seccomp, uids
from worker.sandbox.model import SandboxError, SandboxLevel, SandboxLimits, SandboxSpec

_TRIAL_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Host:
    """What the host offers. `level` and `reason` are filled by `host`."""

    bwrap: str
    """Path of bubblewrap; empty where it is missing."""
    seccomp_problem: str
    landlock_abi: int
    has_cgroups: bool
    uid_reaches_python: bool
    """Root only: another user id could run our Python by its path, without mounts of its own."""
    level: SandboxLevel = SandboxLevel.L0
    reason: str = ""
    """Why no higher level works here; empty at the highest."""

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
        uid_reaches_python=root and _others_can_run(Path(sys.executable)),
    )


@lru_cache(maxsize=1)
def host() -> Host:
    """The strongest level that a trial run proves, with the reason why not more."""
    found = ingredients()
    reasons: list[str] = []
    for level in sorted(SandboxLevel, reverse=True):
        problem = _missing(found, level) or _trial(level)
        if not problem:
            if os.getuid() == 0 and level < SandboxLevel.L2 and not found.uid_reaches_python:
                reasons.append("programs run as root, without capabilities: no other user id reaches this Python")
            return replace(found, level=level, reason="; ".join(reasons))
        reasons.append(f"L{level}: {problem}")
    raise SandboxError("No program can be started on this host: " + "; ".join(reasons))


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
    return ""


def _trial(level: SandboxLevel) -> str:
    """Run a trivial program at `level`; the problem in words, or nothing."""
    from worker.sandbox import run

    limits = SandboxLimits(memory_bytes=256 << 20)
    spec = SandboxSpec(
        name=f"probe-{os.getpid()}-{level}", argv=(sys.executable, "-I", "-S", "-c", "pass"),
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


def _others_can_run(program: Path) -> bool:
    """Ask the kernel: can the first sandbox user id execute `program`?"""
    uid = uids.uid_range()[0]
    try:
        done = subprocess.run(
            [str(program), "-I", "-S", "-c", "pass"], user=uid, group=uid, extra_groups=[],
            capture_output=True, timeout=_TRIAL_S, env={}, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0

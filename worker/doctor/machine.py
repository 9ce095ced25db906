"""The machine alone: versions, GPU driver, sandbox, disks."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from worker import devices, horovod_build, sandbox
from worker.doctor.findings import Finding, bad, ok, skip, warn
from worker.transfer.cache import DAMAGED_LATELY_S, DAMAGES_MAX, Cache
from worker.words import counted, size_words

GIB, MIB = 1 << 30, 1 << 20
DISK_BAD_BYTES, DISK_WARN_BYTES = 1 * GIB, 10 * GIB
WRITE_BYTES = 64 * MIB
WRITE_WARN_BYTES_PER_S = 50 * MIB
_RAISE = {
    0: "Install libseccomp2 and bubblewrap (Debian: apt install bubblewrap libseccomp2).",
    1: "Install bubblewrap and allow user namespaces (Debian: apt install bubblewrap).",
    2: "Run the agent as root, with cgroups it may write: then each run has an own user and limits by the kernel.",
}


def versions() -> Iterator[Finding]:
    """Python, torch, Horovod."""
    python = platform.python_version()
    yield (
        ok("Python", python)
        if sys.version_info >= (3, 11)
        else bad("Python", python, "Programs need 3.11 or newer.", "Make the environment with a newer Python.")
    )
    for package, name in (("torch", "PyTorch"), ("horovod", "Horovod")):
        version = _version(package)
        if version:
            yield ok(name, version)
        elif package == "torch":
            yield bad(name, "not installed", "No program can run here.", "Run deploy/setup.sh on this machine.")
        else:
            step = "Run deploy/setup.sh here, or let an admin set the pool's backend to torch."
            yield warn(name, "not installed", "Jobs of several ranks fail here while the backend is Horovod.", step)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def gpus() -> Iterator[Finding]:
    """The NVIDIA driver, whether PyTorch can use it, and whether ranks on these GPUs are joined by NCCL."""
    name = "GPU driver"
    try:
        import pynvml

        pynvml.nvmlInit()
        driver, count = pynvml.nvmlSystemGetDriverVersion(), pynvml.nvmlDeviceGetCount()
    except Exception:
        if any(Path("/dev").glob("nvidia[0-9]*")):
            yield bad(name, "does not answer", "The GPUs here are not offered.", "Install or restart the driver.")
        else:
            yield ok(name, "no NVIDIA GPU here", "The node offers its CPU cores.")
        return
    text = f"{devices.text_of(driver)}, {counted(count, 'GPU')}"
    if not _torch_has_cuda():
        step = "Install the CUDA build of the same PyTorch release."
        yield bad(name, text, "PyTorch here is a CPU build: jobs on these GPUs fail.", step)
        return
    yield ok(name, text)
    host = sandbox.host()
    if host.level == sandbox.SandboxLevel.L1 and not host.gives_uid(host.level):
        step = "Install bubblewrap (Debian/Ubuntu: apt-get install bubblewrap)."
        text = "level L1, programs without a user id of their own"
        yield bad("GPUs in the sandbox", text, "CUDA does not start there: jobs on GPUs fail.", step)
    if _version("horovod"):
        yield gpu_sums()


def gpu_sums() -> Finding:
    """Whether the ranks of a job can add up gradients from GPU to GPU: what Horovod was built with."""
    name = "sums between GPUs"
    if horovod_build.has_nccl():
        return ok(name, "Horovod has NCCL")
    step = "Run deploy/horovod/operations.py, which says what is missing; install that, and run deploy/setup.sh."
    return warn(name, "Horovod has no NCCL", "Ranks on GPUs add up gradients through the host's memory: slower.", step)


def _torch_has_cuda() -> bool:
    spec = importlib.util.find_spec("torch")
    return bool(spec and spec.origin and (Path(spec.origin).parent / "lib" / "libtorch_cuda.so").exists())


def sandbox_level() -> Finding:
    """The strongest level, and what would raise it."""
    host = sandbox.host()
    text = f"L{int(host.level)}"
    if not host.reason:
        meaning = "The strongest level."
        if sandbox.network_problem():
            meaning = "The strongest level; ranks on several nodes, which share the hosts' networks here, have L2."
        return ok("sandbox", text, meaning)
    step = _RAISE.get(int(host.level), "")
    if host.tried > host.level:  # a busy machine or a full disk: there is nothing to install
        step = "Nothing is missing: what failed is tried again from time to time."
    if os.environ.get("DLH_SANDBOX_MAX_LEVEL"):
        step = "Unset DLH_SANDBOX_MAX_LEVEL."
    meaning = f"Why not more: {host.reason}."
    return warn("sandbox", text, meaning, step) if host.level < 2 else ok("sandbox", text, f"{meaning} {step}".strip())


def disk(name: str, folder: Path, *, make: bool = False) -> Iterator[Finding]:
    """Free space and how fast it takes bytes that must stay (fsync). `make`: the folder, where it is missing."""
    try:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        free_bytes = shutil.disk_usage(folder).free
    except OSError as error:
        yield bad(name, f"{error.strerror}", "Nothing can be stored there.", f"Make {folder} reachable.")
        return
    text = f"{size_words(free_bytes)} free"
    if free_bytes < DISK_BAD_BYTES:
        yield bad(name, text, "Runs end with a full disk.", "Free space, or choose another folder.")
        return
    if free_bytes < DISK_WARN_BYTES:
        yield warn(name, text, "Large datasets and checkpoints will not fit.", "Free space.")
    else:
        yield ok(name, text)
    yield _write_rate(f"{name}, writing", folder)


def cache_contents(cache: Cache, now_s: float) -> Finding:
    """What became damaged in the node's own cache lately."""
    name = "contents of the cache"
    lately = cache.damages_lately(now_s)
    if not lately:
        return ok(name, f"none became damaged within {DAMAGED_LATELY_S // 86400:.0f} days")
    last = time.strftime("%Y-%m-%d %H:%M", time.gmtime(lately[-1]["at_s"]))
    files = ", ".join(lately[-1]["files"][:3]) or size_words(lately[-1]["bytes"])
    count = f"{len(lately)} or more" if len(lately) >= DAMAGES_MAX else f"{len(lately)}"
    text = f"{count} became damaged, the last at {last} UTC ({files})"
    meaning = "They were thrown away and are fetched again, but whatever flips bits once usually does so again."
    return warn(name, text, meaning, "Test the disk (smartctl -t long) and the memory.")


def _write_rate(name: str, folder: Path) -> Finding:
    file = folder / f".dlh-doctor-{os.getpid()}"
    block = os.urandom(MIB)
    try:
        began_s = time.perf_counter()
        with file.open("wb") as stream:
            for _ in range(WRITE_BYTES // MIB):
                stream.write(block)
            stream.flush()
            os.fsync(stream.fileno())
        rate = WRITE_BYTES / (time.perf_counter() - began_s)
    except PermissionError:
        return skip(name, "may not be written by this user")
    except OSError as error:
        return bad(
            name, f"{error.strerror}", "Checkpoints cannot be written there.", "Free space on the disk, or repair it."
        )
    finally:
        with contextlib.suppress(OSError):
            file.unlink()
    text = f"{size_words(rate)}/s"
    if rate < WRITE_WARN_BYTES_PER_S:
        return warn(name, text, "Saving a checkpoint of 1 GiB takes longer than 20 s.", "Use a faster disk or network.")
    return ok(name, text)


def _level() -> Iterator[Finding]:
    yield sandbox_level()


MACHINE: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
    ("versions", versions), ("GPU driver", gpus), ("sandbox", _level),
)  # fmt: skip
"""What is looked at but for its disks, each by itself."""

"""What a run uses, seen from outside: processes by psutil, GPUs by NVML, the host's processor packages by RAPL."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from worker import devices
from worker.power import EnergyMeter

RANK_VARIABLE = "DLH_RANK"
IN_MEMORY = (Path("/dev/shm"), Path("/tmp"))  # noqa: S108
"""File systems in memory that a sandbox has for itself."""


@dataclass
class Monitor:
    """Makes the data of SAMPLE events; call about once a second."""

    gpus: tuple[int, ...] = ()
    memory_bytes: int = 0
    """Memory of the whole sandbox at the last sample: what is resident of each process alone, and once what they share
    or keep in file systems in memory."""
    _processes: dict[int, tuple[psutil.Process, int | None]] = field(default_factory=dict)
    _cpu_s: dict[psutil.Process, float] = field(default_factory=dict)
    """Time that each had taken at the last sample; a process, not its id, which another one may have by now."""
    _sampled_s: float = field(default_factory=time.monotonic)
    _packages: EnergyMeter = field(default_factory=EnergyMeter)

    def sample(self, processes: Iterable[psutil.Process]) -> dict[str, Any]:
        """Use of each rank (its descendants included), of the host and of the run's GPUs."""
        now_s = time.monotonic()
        span_s = max(now_s - self._sampled_s, 1e-3)
        self._sampled_s = now_s
        self._remember(processes)
        ranks: dict[int, dict[str, float]] = {}
        self.memory_bytes = _shared_bytes([process for process, _ in self._processes.values()])
        before_s, self._cpu_s = self._cpu_s, {}
        for process, rank in self._processes.values():
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    memory = process.memory_info()
            except psutil.Error:
                continue
            if not memory.rss:  # it has ended, and only its parent has not looked
                continue
            # shared pages (libraries, tensors of loaders) would be counted once per process
            self.memory_bytes += max(0, memory.rss - getattr(memory, "shared", 0))
            used_s = times.user + times.system
            spent_s = used_s - before_s.get(process, used_s)
            self._cpu_s[process] = used_s
            if rank is not None:
                entry = ranks.setdefault(rank, {"rank": rank, "cpu_percent": 0.0, "rss_bytes": 0})
                entry["cpu_percent"] += round(100.0 * spent_s / span_s, 1)
                entry["rss_bytes"] += memory.rss
        host = psutil.virtual_memory()
        return {
            "ranks": [ranks[rank] for rank in sorted(ranks)],
            "host": {
                "cpu_percent": psutil.cpu_percent(),
                "memory_bytes": host.total - host.available,
                "memory_total_bytes": host.total,
                "cores": os.cpu_count() or 1,
                "packages_w": self._packages.lap(),
            },
            "gpus": devices.gpu_samples(self.gpus),
        }

    @property
    def ranks(self) -> set[int]:
        """Ranks of which a process was there at the last sample, by the numbers that these began with."""
        return {rank for _, rank in self._processes.values() if rank is not None}

    def _remember(self, processes: Iterable[psutil.Process]) -> None:
        known = self._processes
        self._processes = {}
        for process in processes:
            before = known.get(process.pid)
            if before and before[0] == process and before[1] is not None:
                self._processes[process.pid] = before
            else:
                self._processes[process.pid] = (process, _rank_of(process))


def _rank_of(process: psutil.Process) -> int | None:
    """Rank in whose environment the process was started."""
    try:
        return int(process.environ()[RANK_VARIABLE])
    except (psutil.Error, KeyError, ValueError, OSError):
        return None


def _shared_bytes(processes: Sequence[psutil.Process]) -> int:
    """What the file systems in memory of their sandbox hold, mapped or not; of memory that is shared otherwise, and
    where the sandbox has none of its own, at least what the process has that maps most."""
    return max([_in_files_bytes(processes), *map(_mapped_shared_bytes, processes)])


def _in_files_bytes(processes: Sequence[psutil.Process]) -> int:
    """Seen through the root of the innermost process that shows it: the outer ones may still have that of the host."""
    for process in reversed(processes):
        root = f"/proc/{process.pid}/root"
        try:
            own = [path for path in IN_MEMORY if Path(f"{root}{path}").stat().st_dev != path.stat().st_dev]
            found = [os.statvfs(f"{root}{path}") for path in own]
        except OSError:  # it has ended, or may not be looked into
            continue
        if found:
            return sum((one.f_blocks - one.f_bfree) * one.f_frsize for one in found)
    return 0


def _mapped_shared_bytes(process: psutil.Process) -> int:
    """Resident pages of memory that is shared, without those of files on disks."""
    with suppress(OSError, ValueError):
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        found = (line.split()[1] for line in lines if line.startswith("RssShmem:"))
        return 1024 * int(next(found, 0))
    return 0

"""Cores and memory that this process may use: the machine's, or what its container or service leaves of them.

A limit of a control group is seen by no other means: a container of 2 CPUs on a machine of 64 is shown all 64 by the
kernel, and is slowed down or ended for using them.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

ROOT = Path("/sys/fs/cgroup")
GROUPS = Path("/proc/self/cgroup")


def cores() -> int:
    """Whole cores, at least one."""
    allowed = float(len(os.sched_getaffinity(0)))
    return max(1, math.floor(min([allowed, *_quotas()])))


def memory_total_bytes() -> int:
    """Memory of the machine, or the limit where that is less."""
    return min([psutil.virtual_memory().total, *(limit for _, limit in _memory_limits())])


def memory_available_bytes() -> int:
    """What can be taken before the machine swaps, or the kernel ends somebody at the limit."""
    left = [limit - _memory_used_bytes(folder) for folder, limit in _memory_limits()]
    return max(0, min([psutil.virtual_memory().available, *left]))


def _quotas() -> Iterator[float]:
    """Cores' worth of time, of each group around us that is limited."""
    for folder in _folders("cpu"):
        with suppress(OSError, ValueError):
            if (folder / "cpu.max").exists():
                quota_us, period_us = (folder / "cpu.max").read_text().split()
            else:
                quota_us, period_us = (
                    (folder / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period")
                )
            if quota_us.isdigit():  # neither "max" nor -1
                yield int(quota_us) / int(period_us)


def _memory_limits() -> Iterator[tuple[Path, int]]:
    for folder in _folders("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError):
                text = (folder / name).read_text().strip()
                if text.isdigit():
                    yield folder, int(text)


def _memory_used_bytes(folder: Path) -> int:
    """Without pages of files that the kernel would drop first."""
    used_bytes = 0
    for usage, pages in (("memory.current", "inactive_file"), ("memory.usage_in_bytes", "total_inactive_file")):
        with suppress(OSError, ValueError):
            used_bytes = int((folder / usage).read_text())
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            return used_bytes - int(stat.get(pages, 0))
    return used_bytes


def _folders(controller: str) -> Iterator[Path]:
    """Our group and those around it (version 2, or 1 of this controller), as far as they can be seen from here."""
    with suppress(OSError):
        for line in GROUPS.read_text().splitlines():
            _, names, path = line.split(":", 2)
            if names and controller not in names.split(","):
                continue
            root = ROOT / controller if names else ROOT
            group = Path() if ".." in Path(path).parts else Path(path.lstrip("/"))
            yield from (root / folder for folder in (group, *group.parents))

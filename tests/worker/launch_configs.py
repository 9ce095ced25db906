"""What node processes are told: two nodes, the first one with two of three ranks."""

from __future__ import annotations

import sys
from typing import Any

from worker.launch_config import LaunchConfig, LocalRank

HOSTS = [("dlh-a", 2), ("dlh-b", 1)]


def config(hostname: str = "dlh-a", **changes: Any) -> LaunchConfig:
    """Of one of them."""
    first = hostname == "dlh-a"
    ranks = [LocalRank(rank=r, local_rank=r, stdout_fd=1, stderr_fd=2, environment={}) for r in (0, 1)]
    if not first:
        ranks = [LocalRank(rank=2, local_rank=0, stdout_fd=1, stderr_fd=2, environment={})]
    defaults = {
        "argv": [sys.executable, "-c", "pass"], "workdir": "/", "requests": "/nowhere", "status_fd": 3,
        "backend": "horovod", "hosts": HOSTS, "hostname": hostname, "address": "127.0.0.1", "interface": "lo",
        "ranks": ranks,
    }  # fmt: skip
    return LaunchConfig(**{**defaults, **changes})

"""Where the generations of an elastic gang meet: a run of months has many, and keeps nothing of those that are over."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_for
from worker.launch import LaunchConfig, LocalRank
from worker.seating import Rendezvous

pytestmark = pytest.mark.ranks


def sockets() -> int:
    """Of this process."""
    links = [Path(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]  # noqa: PTH208 - they come and go
    return sum(link.is_symlink() and os.readlink(link).startswith("socket:") for link in links)  # noqa: PTH115


def test_a_rendezvous_that_is_over_keeps_neither_port_nor_thread() -> None:
    ranks = [LocalRank(rank=rank, local_rank=rank, stdout_fd=1, stderr_fd=2, environment={}) for rank in (0, 1)]
    config = LaunchConfig(
        argv=[], workdir=".", requests=".", status_fd=1, backend="horovod", hosts=[("localhost", 2)],
        hostname="localhost", address="127.0.0.1", interface="lo", ranks=ranks,
    )  # fmt: skip
    rendezvous = Rendezvous(config)
    rendezvous.open([("localhost", 2)])
    first, threads = sockets(), psutil.Process().num_threads()
    for _ in range(5):
        rendezvous.open([("localhost", 2)])
    wait_for(lambda: sockets() <= first and psutil.Process().num_threads() <= threads)

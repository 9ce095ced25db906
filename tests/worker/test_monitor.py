"""What a run uses, by process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from tests.untested import untested
from worker.monitor import RANK_VARIABLE, Monitor
from worker.sandbox import SandboxLevel, SandboxLimits, SandboxSpec, host, start
from worker.sandbox.environment import python_environment


class Standing:
    """A process that has used so many seconds; another one may have had its id."""

    def __init__(self, pid: int, used_s: float) -> None:
        self.pid, self.used_s, self.rss = pid, used_s, 1 << 20

    @contextmanager
    def oneshot(self) -> Iterator[None]:
        yield

    def cpu_times(self) -> Any:
        return SimpleNamespace(user=self.used_s, system=0.0)

    def memory_info(self) -> Any:
        return SimpleNamespace(rss=self.rss, shared=0)

    def environ(self) -> dict[str, str]:
        return {RANK_VARIABLE: "0"}


def load_of(sample: dict[str, Any]) -> float:
    return float(sample["ranks"][0]["cpu_percent"])


def test_a_process_is_not_taken_for_an_older_one_that_had_its_id() -> None:
    monitor = Monitor()
    first: Any = Standing(7, 1000.0)
    monitor.sample([first])
    first.used_s += 1.0
    assert load_of(monitor.sample([first])) > 0.0
    second: Any = Standing(7, 1.0)
    assert load_of(monitor.sample([second])) == 0.0
    second.used_s += 1.0
    assert load_of(monitor.sample([second])) > 0.0


def test_a_rank_that_has_ended_is_not_told_to_use_nothing() -> None:
    monitor = Monitor()
    rank: Any = Standing(7, 1.0)
    assert [one["rss_bytes"] for one in monitor.sample([rank])["ranks"]] == [1 << 20]
    rank.rss = 0
    assert monitor.sample([rank])["ranks"] == []


SHARING = r"""
import mmap, os, sys, time
with open(sys.argv[1] + "/shared", "wb+") as file:
    file.write(bytes(64 << 20)); file.flush()
    shared = mmap.mmap(file.fileno(), 0)
    os.unlink(file.name)
for _ in range(3):
    if not os.fork():
        break
sum(shared[::4096])
os.write(1, b"there\n")
time.sleep(600)
"""


@pytest.fixture
def sharing(home: Path, tmp_path: Path) -> Iterator[Callable[[SandboxLevel, str], list[psutil.Process]]]:
    """Starts a program whose four processes share 64 MiB in a folder; its processes, once all have looked at them."""
    started = []

    def begin(level: SandboxLevel, folder: str) -> list[psutil.Process]:
        spec = SandboxSpec(
            name=f"m{os.getpid()}", argv=(sys.executable, "-c", SHARING, folder), workdir=tmp_path,
            writable=(tmp_path,), limits=SandboxLimits(memory_bytes=1 << 30), environment=python_environment(),
        )  # fmt: skip
        started.append(process := start(spec, at_level=level, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
        assert process.popen.stdout
        assert [process.popen.stdout.readline() for _ in range(4)] == [b"there\n"] * 4
        return process.processes()

    yield begin
    for process in started:
        process.close()


@pytest.mark.parametrize("folder", ["/dev/shm", "/tmp"])
def test_what_processes_share_in_the_memory_of_their_sandbox_counts_once(
    sharing: Callable[[SandboxLevel, str], list[psutil.Process]], folder: str
) -> None:
    if host().level < SandboxLevel.L2:
        pytest.skip(untested("memory in the file systems of a sandbox", host().reason))
    monitor = Monitor()
    monitor.sample(sharing(SandboxLevel.L2, folder))
    assert 64 << 20 <= monitor.memory_bytes < 128 << 20


@pytest.mark.skipif(host().level < SandboxLevel.L1, reason=untested("landlock", host().reason))
def test_where_a_sandbox_has_no_such_file_system_of_its_own_what_is_mapped_counts_once(
    sharing: Callable[[SandboxLevel, str], list[psutil.Process]],
) -> None:
    monitor = Monitor()
    monitor.sample(sharing(SandboxLevel.L1, "/dev/shm"))
    assert 64 << 20 <= monitor.memory_bytes < 128 << 20

"""Cores and memory of a container or service: its control group's limits, whichever version the machine has."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from worker import devices, heartbeat, host_limits

GIB = 1 << 30
CORES = 64


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """64 cores and 256 GiB, of which 100 are used; the folder is where control groups are mounted."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(CORES)))
    memory = SimpleNamespace(total=256 * GIB, available=156 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr(host_limits, "ROOT", tmp_path)
    monkeypatch.setattr(host_limits, "GROUPS", tmp_path / "groups")
    monkeypatch.delenv("DLH_NODE_CORES", raising=False)
    return tmp_path


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n")


def limits() -> tuple[int, int, int]:
    return host_limits.cores(), host_limits.memory_total_bytes(), host_limits.memory_available_bytes()


def test_without_a_limit_all_of_the_machine_may_be_used(machine: Path) -> None:
    assert limits() == (CORES, 256 * GIB, 156 * GIB)
    group(machine, groups="0::/", cpu__max="max 100000", memory__max="max", memory__current="5")
    assert limits() == (CORES, 256 * GIB, 156 * GIB)


def test_a_container_has_what_its_limits_leave(machine: Path) -> None:
    group(machine, groups="0::/", cpu__max="250000 100000", memory__max=str(8 * GIB), memory__current=str(3 * GIB))
    group(machine, memory__stat=f"anon 5\ninactive_file {GIB}")
    assert limits() == (2, 8 * GIB, 6 * GIB)


def test_half_a_core_is_one_core(machine: Path) -> None:
    group(machine, groups="0::/", cpu__max="50000 100000")
    assert host_limits.cores() == 1


def test_the_tightest_of_the_groups_around_a_service_counts(machine: Path) -> None:
    group(machine, groups="0::/system.slice/node.service", memory__max=str(100 * GIB))
    group(machine / "system.slice", cpu__max="400000 100000", memory__max="max")
    group(machine / "system.slice" / "node.service", cpu__max="max 100000", memory__max=str(50 * GIB))
    assert limits()[:2] == (4, 50 * GIB)


def test_version_1_of_control_groups_has_one_tree_for_each_controller(machine: Path) -> None:
    group(machine, groups="4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/")
    # In a container the path is the host's, and what is mounted is the container's own group.
    group(machine / "cpu", cpu__cfs_quota_us="300000", cpu__cfs_period_us="100000")
    group(machine / "memory", memory__limit_in_bytes=str(4 * GIB), memory__usage_in_bytes=str(GIB))
    assert limits() == (3, 4 * GIB, 3 * GIB)
    group(machine / "cpu", cpu__cfs_quota_us="-1")
    group(machine / "memory", memory__limit_in_bytes="9223372036854771712")
    assert limits()[:2] == (CORES, 256 * GIB)


def test_a_node_in_a_container_offers_no_more_than_its_container_has(machine: Path) -> None:
    group(machine, groups="0::/", cpu__max="200000 100000", memory__max=str(8 * GIB))
    cores = [device for device in devices.devices() if device["kind"] == "cpu"]
    assert [device["memory_bytes"] for device in cores] == [4 * GIB, 4 * GIB]
    told = heartbeat.report()
    assert (told["cpu_cores"], told["memory_bytes"]) == (2, 8 * GIB)

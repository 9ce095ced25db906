"""A program in a sandbox computes on the GPU that it was given, and reaches no other."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.untested import untested
from worker import sandbox
from worker.devices import gpus_at
from worker.programs import ProgramCall, program_run
from worker.sandbox import SandboxLevel, SandboxLimits, python_environment

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("home")]
LOOKS = """
import json, os
import torch

def opens(path):
    try:
        os.close(os.open(path, os.O_RDWR))
        return True
    except OSError:
        return False

found = {"there": torch.cuda.is_available(), "count": torch.cuda.device_count()}
found["files"] = [path for path in (f"/dev/nvidia{minor}" for minor in range(64)) if opens(path)]
if found["there"]:
    square = torch.eye(64, device="cuda:0") * 3
    kept = torch.ones(64, 64).pin_memory().to("cuda:0", non_blocking=True)
    found["sum"] = float((square @ kept).sum())
    found["uuid"] = str(torch.cuda.get_device_properties(0).uuid)
print(json.dumps(found))
"""
SUM = 3.0 * 64 * 64


def at(level: SandboxLevel) -> SandboxLevel:
    """That level, where this host reaches it."""
    host = sandbox.host()
    if host.level < level:
        pytest.skip(
            untested(f"sandbox L{int(level)} with a GPU", f"this host reaches L{int(host.level)}: {host.reason}")
        )
    if level == SandboxLevel.L1 and not host.gives_uid(level):
        pytest.skip(
            untested(
                "sandbox L1 with a GPU",
                "programs have no user id of their own there, without which CUDA does not start",
            )
        )
    return level


def looked(
    level: SandboxLevel, folder: Path, gpus: tuple[int, ...], environment: Mapping[str, str], **limits: Any
) -> dict[str, Any]:
    """What a program sees there."""
    folder.mkdir()
    done = sandbox.run_sandboxed(
        [sys.executable, "-c", LOOKS], name=f"gpu{os.getpid()}-{int(level)}", workdir=folder, writable=(folder,),
        packages=("worker",), limits=SandboxLimits(**{"memory_bytes": 8 << 30, "file_bytes": 1 << 30, **limits}),
        environment=python_environment(**environment), gpus=gpus, at_level=level, timeout_s=120.0,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    body: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return body


@pytest.mark.parametrize("level", list(SandboxLevel))
def test_a_program_computes_on_the_gpu_that_it_was_given(
    level: SandboxLevel, gpu: dict[str, Any], tmp_path: Path
) -> None:
    (given,) = gpus_at((gpu["index"],))
    found = looked(at(level), tmp_path / "work", (given.minor,), {"CUDA_VISIBLE_DEVICES": given.uuid})
    assert found["there"] and found["count"] == 1 and found["sum"] == SUM
    assert f"GPU-{found['uuid']}" == given.uuid
    if level >= SandboxLevel.L1:
        assert found["files"] == [f"/dev/nvidia{given.minor}"]


@pytest.mark.parametrize("level", [level for level in SandboxLevel if level >= SandboxLevel.L1])
def test_a_program_without_a_gpu_reaches_none_whatever_it_says(level: SandboxLevel, tmp_path: Path) -> None:
    found = looked(at(level), tmp_path / "work", (), {"CUDA_VISIBLE_DEVICES": "0"})
    assert found == {"there": False, "count": 0, "files": []}


@pytest.mark.parametrize("level", list(SandboxLevel))
def test_a_program_that_is_told_of_no_gpu_sees_none(level: SandboxLevel, tmp_path: Path) -> None:
    assert not looked(at(level), tmp_path / "work", (), {"CUDA_VISIBLE_DEVICES": ""})["there"]


@pytest.mark.parametrize("level", list(SandboxLevel))
def test_a_limit_on_memory_that_is_enough_for_a_processor_is_enough_to_start_a_gpu(
    level: SandboxLevel, gpu: dict[str, Any], tmp_path: Path
) -> None:
    (given,) = gpus_at((gpu["index"],))
    environment = {"CUDA_VISIBLE_DEVICES": given.uuid}
    found = looked(at(level), tmp_path / "work", (given.minor,), environment, memory_bytes=3 << 30)
    assert found["sum"] == SUM


def test_a_program_beside_training_computes_on_its_gpu(gpu: dict[str, Any], tmp_path: Path) -> None:
    call = ProgramCall(
        name=f"looks{os.getpid()}", argv=(sys.executable, "-c", LOOKS), workdir=tmp_path, readonly=(tmp_path,),
        timeout_s=120.0, gpus=(gpu["index"],),
    )  # fmt: skip
    done = program_run(call)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.strip().splitlines()[-1])["sum"] == SUM
    assert done.level == sandbox.host().level


def test_a_program_beside_training_without_a_gpu_sees_none(tmp_path: Path) -> None:
    call = ProgramCall(
        name=f"none{os.getpid()}", argv=(sys.executable, "-c", LOOKS), workdir=tmp_path, readonly=(tmp_path,),
        timeout_s=120.0,
    )  # fmt: skip
    done = program_run(call)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert not found["there"] and found["count"] == 0
    if done.level >= SandboxLevel.L1:
        assert found["files"] == []

"""A downloaded program, away from the platform, under the launchers that its README names."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worker.runtime import samples
from tests.worker.runtime.ranks import events

pytestmark = pytest.mark.ranks
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with its data and its own copy of the runtime."""
    folder = tmp_path_factory.mktemp("download") / "program"
    training = {"epochs": 2, "batch_size": 32, "patience": 0}
    profile = samples.wine(folder / "data")
    return samples.program(folder, profile, alone=True, model={"family": "mlp"}, training=training)


def launch(program: Path, work: str, *command: str) -> Path:
    """Run a command line in the program's folder with no word of the platform; its work folder."""
    environment = {**samples.BARE, "PATH": f"{BIN}{os.pathsep}{samples.BARE['PATH']}"}
    done = subprocess.run(
        [*command, "--work", work],
        cwd=program,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return program / work


def assert_two_ranks_trained(work: Path, backend: str) -> None:
    """Both ranks told their pace, and the first one wrote results of a run of two."""
    body = json.loads((work / "results" / "results.json").read_text())
    assert (body["environment"]["world_size"], body["environment"]["backend"]) == (2, backend)
    assert (work / "results" / "model.safetensors").stat().st_size > 0
    for rank in (0, 1):
        told = [event["data"]["values"] for event in events(work, rank) if event["kind"] == "metric"]
        assert any(f"rank{rank}/samples_per_s" in values for values in told)


def test_torchrun_trains_it_with_two_ranks(program: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = (str(BIN / "torchrun"), "--nproc-per-node", "2", "--master-port", str(port), "train.py")
    assert_two_ranks_trained(launch(program, "by-torchrun", *command), "torch")


def test_horovodrun_trains_it_with_two_ranks(program: Path) -> None:
    command = (str(BIN / "horovodrun"), "-np", "2", str(BIN / "python"), "train.py")
    assert_two_ranks_trained(launch(program, "by-horovodrun", *command), "horovod")

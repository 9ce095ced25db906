"""A node's programs are the installed ones, whatever lies in the folder that somebody starts them in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.client.cli import node
from harness.env import REPOSITORY
from worker import agent


def test_a_file_in_the_folder_that_an_agent_is_started_in_is_not_taken_for_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "celery.py").write_text("raise SystemExit('taken from the folder')\n")
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execve", lambda _path, argv, _env: started.append(argv))
    node.agent_run(tmp_path, {"node": "node-1"}, silent=True)
    env = {**os.environ, "DLH_HOME": str(tmp_path / "home"), "PYTHONPATH": str(REPOSITORY)}
    (tmp_path / "home").mkdir()
    ended = subprocess.run(
        [*started[0], "stop"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 0, ended.stderr


def test_so_are_its_supervisors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[list[str]] = []

    def popen(argv: list[str], **_: Any) -> Any:
        started.append(argv)
        return SimpleNamespace(pid=os.getpid())

    monkeypatch.setattr(agent, "subprocess", SimpleNamespace(Popen=popen, DEVNULL=subprocess.DEVNULL))
    monkeypatch.setattr(agent, "_children", [])
    paths: Any = SimpleNamespace(attempt=lambda _: tmp_path, root=tmp_path, part="")
    agent._spawn(SimpleNamespace(token=1, job_id="j"), paths)  # type: ignore[arg-type]
    assert started[0][1:3] == ["-P", "-m"]

"""Commands that work on the installation itself, in a process of their own: how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.client.cli.child import child_run
from tests.waiting import wait_for

SLOW_TO_LEAVE = """
import pathlib, signal, sys, time
try:
    pathlib.Path("ready").touch()
    time.sleep(600)
except KeyboardInterrupt:
    time.sleep(1.0)  # longer than Python waits for a child when Ctrl-C comes
    pathlib.Path("cleaned").touch()
    sys.exit(130)
"""
PARENT = "import sys; from harness.client.cli.child import child_run; sys.exit(child_run('slow'))"


def test_ctrl_c_lets_the_command_come_to_its_own_end(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW_TO_LEAVE)
    repository = str(Path(__file__).resolve().parents[3])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([repository, str(tmp_path)])}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], cwd=tmp_path, env=environment, start_new_session=True)
    try:
        wait_for((tmp_path / "ready").exists, 60.0, "the command runs")
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.wait(60) == 130
        assert (tmp_path / "cleaned").exists()
    finally:
        if parent.poll() is None:
            os.killpg(parent.pid, signal.SIGKILL)
            parent.wait()


def test_a_command_that_a_signal_has_ended_ends_as_in_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "killed.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert child_run("killed") == 128 + signal.SIGKILL


def test_files_of_the_folder_that_a_person_is_in_are_no_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "ours.py").write_text("import json, sys; sys.exit(len(json.dumps([])) - 2)")
    monkeypatch.setenv("PYTHONPATH", str(modules))
    monkeypatch.chdir(tmp_path)
    assert child_run("ours") == 0

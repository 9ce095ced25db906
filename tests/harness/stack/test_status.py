"""`make status`: what runs, in words; as JSON for programs; never a secret."""

import json
import os
import subprocess

import pytest

from harness.stack import __main__ as stack
from harness.stack.home import StackHome
from harness.stack.process import created_s


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("DLH_HOME", str(tmp_path))
    made = StackHome(tmp_path)
    made.make_folders()
    return made


def record(home, **more):
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    alive = {"pid": os.getpid(), "created_s": created_s(os.getpid())}
    state = {"state": "running", "url": "http://127.0.0.1:8000", "redis_url": "redis://:secret@127.0.0.1:1/0", **alive}
    parts = [{"name": "portal", **alive}, {"name": "node", "pid": gone.pid, "created_s": 1.0}]
    home.state_write({**state, "children": parts, **more})


def asked(monkeypatch, *options):
    monkeypatch.setattr("sys.argv", ["stack", "status", *options])
    return stack.main()


def test_a_stack_that_runs_is_told_in_words(home, monkeypatch, capsys):
    record(home)
    assert asked(monkeypatch) == 0
    told = capsys.readouterr().out
    lines = dict(line.strip().split(maxsplit=1) for line in told.splitlines())
    assert lines["Address"] == "http://127.0.0.1:8000 (running)" and lines["Logs"] == str(home.logs)
    assert lines["Portal"].startswith(f"process {os.getpid()}, since 20") and lines["Node"] == "ended; see its log"
    assert "secret" not in told and "{" not in told


def test_programs_get_json(home, monkeypatch, capsys):
    record(home)
    assert asked(monkeypatch, "--json") == 0
    told = capsys.readouterr().out
    assert {child["name"]: child["alive"] for child in json.loads(told)["children"]} == {"portal": True, "node": False}
    assert "secret" not in told
    record(home, pid=0)
    assert asked(monkeypatch, "--json") == 1
    assert json.loads(capsys.readouterr().out)["state"] == "stopped"


def test_a_home_without_a_stack_says_so(home, monkeypatch, capsys):
    assert asked(monkeypatch) == 1
    assert f"No stack runs in {home.root}." in capsys.readouterr().out

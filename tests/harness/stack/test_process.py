"""Children that are kept alive."""

import errno
import os
import signal
import subprocess
import sys

import psutil
import pytest

from harness.stack.process import LOG_ROTATE_BYTES, Child, ChildSpec, ending, log_rotate
from tests.waiting import wait_for

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import os, signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(600)",
]


class Clock:
    """A clock that the test moves."""

    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def make_child(tmp_path):
    made = []

    def make(command, grace_s=5.0):
        spec = ChildSpec(
            name="part", command=command, environment=os.environ, log=tmp_path / "part.log", grace_s=grace_s
        )
        made.append(Child(spec, clock=Clock()))
        made[-1].start()
        return made[-1]

    yield make
    for child in made:
        child.end()


def test_a_killed_child_is_started_again_after_its_back_off(make_child):
    child = make_child(SLEEP)
    first = child.process.pid
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: not child.alive)
    assert "SIGKILL" in child.keep()
    assert child.keep() == ""
    child.clock.now_s += 0.6
    assert child.keep() == "part restarted"
    assert child.alive
    assert child.process.pid != first


def test_the_back_off_doubles_and_starts_anew_after_a_steady_time(make_child):
    child = make_child([sys.executable, "-c", "raise SystemExit(3)"])
    waits = []
    for _ in range(4):
        wait_for(lambda: not child.alive)
        waits.append(child.keep().rsplit(" in ", 1)[1])
        child.clock.now_s += 60
        child.keep()
        child.clock.now_s += 1
    assert waits == ["0.5 s", "1.0 s", "2.0 s", "4.0 s"]
    child.clock.now_s += 61
    wait_for(lambda: not child.alive)
    assert child.keep().endswith("in 0.5 s")


def test_a_child_that_cannot_be_started_is_tried_again_later(make_child, monkeypatch):
    child = make_child(SLEEP)
    os.kill(child.process.pid, signal.SIGKILL)
    wait_for(lambda: not child.alive)
    child.keep()

    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("harness.stack.process.subprocess.Popen", refuse)
    child.clock.now_s += 0.6
    assert "cannot be started: No space left" in child.keep()
    monkeypatch.undo()
    child.clock.now_s += 1.1
    assert child.keep() == "part restarted"


def test_a_child_that_ignores_sigterm_is_killed_with_its_whole_session(make_child, tmp_path):
    child = make_child(STUBBORN, grace_s=0.2)
    wait_for(lambda: (tmp_path / "part.log").read_text().strip())
    grandchild = int((tmp_path / "part.log").read_text())
    child.end()
    assert not child.alive
    wait_for(lambda: not psutil.pid_exists(grandchild) or psutil.Process(grandchild).status() == "zombie")


def test_children_end_when_the_stack_itself_is_killed(tmp_path):
    program = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from harness.stack.process import Child, ChildSpec\n"
        f"spec = ChildSpec(name='part', command={SLEEP!r}, environment=os.environ, log=Path({str(tmp_path)!r}) / 'l')\n"
        "child = Child(spec); child.start(); print(child.process.pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    wait_for(lambda: (tmp_path / "l").read_text())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_for(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie")


def test_the_tail_of_the_log_is_shown(make_child):
    child = make_child([sys.executable, "-c", "print('one'); print('two')"])
    wait_for(lambda: not child.alive)
    assert child.log_tail(1).strip() == "two"


def test_an_exit_is_told_in_words():
    assert ending(3) == "exit 3"
    assert ending(-9) == "SIGKILL"
    assert ending(-(signal.SIGRTMIN + 2)) == f"signal {signal.SIGRTMIN + 2}"


def test_a_long_log_is_put_aside_and_a_running_program_goes_on_with_an_empty_one(tmp_path):
    log = tmp_path / "part.log"
    with log.open("ab") as stream:
        stream.truncate(LOG_ROTATE_BYTES + 1)
        log_rotate(log)
        stream.write(b"next line")
    assert log.read_bytes() == b"next line"
    assert (tmp_path / "part.log.1").stat().st_size == LOG_ROTATE_BYTES + 1

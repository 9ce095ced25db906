"""What a stack leaves behind is found and ended, and nothing else is."""

import os
import signal
import subprocess
import sys
from unittest.mock import Mock

import psutil
import pytest

from harness.stack.home import StackError, StackHome
from harness.stack.leftovers import (
    end_processes,
    end_stale_children,
    end_supervisors,
    process_find,
    supervisors,
    supervisors_hurry,
)
from harness.stack.process import process_record
from harness.stack.stack import Stack


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.delenv("DLH_STORE", raising=False)
    home = StackHome(tmp_path)
    home.make_folders()
    return home


# Who runs the tests in the background of a script has them, and all they start, ignore SIGINT.
SLEEP = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL); print(flush=True); time.sleep(600)"


@pytest.fixture
def sleeper():
    started = []

    def start(*arguments, **environment):
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", SLEEP, *arguments],
                start_new_session=True,
                stdout=subprocess.PIPE,
                env={**os.environ, **environment},
            )
        )
        started[-1].stdout.readline()
        return psutil.Process(started[-1].pid)

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_live_child_of_a_killed_stack_is_ended(home, sleeper):
    child = sleeper()
    record = process_record(child.pid)
    home.state_write({"children": [{"name": "portal", **record}]})
    assert end_stale_children(home) == 1
    assert process_find(record) is None


def test_a_reused_process_id_is_left_alone(home, sleeper):
    stranger = sleeper()
    for told in ({"began": "another-boot 12.5"}, {"began": "", "created_s": 12345.0}):
        home.state_write({"children": [{"name": "portal", **process_record(stranger.pid), **told}]})
        assert end_stale_children(home) == 0
    assert stranger.is_running()


def test_what_runs_is_found_after_the_clock_was_set(home, sleeper, monkeypatch):
    child = sleeper()
    record, before_s, boot_s = process_record(child.pid), child.create_time(), psutil.boot_time()
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: boot_s + 3600.0)  # what a step of an hour does to it
    assert psutil.Process(child.pid).create_time() > before_s + 3000
    assert process_find(record) == child
    home.state_write({"children": [{"name": "portal", **record}]})
    assert end_stale_children(home) == 1


def test_what_an_earlier_state_of_the_sources_recorded_is_found(sleeper):
    child = sleeper()
    assert process_find({"pid": child.pid, "created_s": child.create_time()}) == child


@pytest.mark.parametrize("record", [{}, {"pid": None}, {"pid": 1, "created_s": 0}, {"pid": "7", "created_s": "x"}])
def test_a_broken_record_ends_nothing(record):
    assert process_find(record) is None


def test_supervisors_of_this_home_only_are_found(home, sleeper, tmp_path):
    own = {"DLH_HOME": str(home.root), "DLH_NODE_NAME": "node-1"}
    ours = sleeper("-m", "worker.supervisor", f"{home.jobs}/abc", "1", **own)
    other = sleeper("-m", "worker.supervisor", f"{tmp_path.parent}/elsewhere/store/jobs/abc", "1", **own)
    assert [process.pid for process in supervisors(home, "node-1")] == [ours.pid]
    assert end_supervisors(home, "node-1", save_s=0.0) == 1
    assert other.is_running()


def test_who_does_not_want_to_wait_interrupts_them(home, sleeper):
    ours = sleeper("-m", "worker.supervisor", f"{home.jobs}/abc", "1", DLH_HOME=str(home.root), DLH_NODE_NAME="node-1")
    supervisors_hurry(home, "node-1")
    assert ours.wait(5) == -signal.SIGINT


def test_a_run_of_a_joined_node_on_this_machine_goes_on_though_it_shares_the_store(home, sleeper, tmp_path):
    ours = sleeper("-m", "worker.supervisor", f"{home.jobs}/abc", "1", DLH_HOME=str(home.root), DLH_NODE_NAME="node-1")
    apart = {"DLH_HOME": str(tmp_path / "joined"), "DLH_NODE_NAME": "node-2"}
    beside = {"DLH_HOME": str(home.root), "DLH_NODE_NAME": "node-2"}
    joined = [sleeper("-m", "worker.supervisor", f"{home.jobs}/def", "1", **given) for given in (apart, beside)]
    assert end_supervisors(home, "node-1", save_s=0.0) == 1
    assert not ours.is_running() or ours.status() == psutil.STATUS_ZOMBIE
    assert all(process.is_running() for process in joined)


def test_descendants_end_with_their_supervisor(sleeper):
    program = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    parent = subprocess.Popen(
        [sys.executable, "-c", f"{program}; print(flush=True); time.sleep(600)"], stdout=subprocess.PIPE
    )
    parent.stdout.readline()
    tree = psutil.Process(parent.pid)
    record = process_record(tree.children()[0].pid)
    end_processes([tree], grace_s=5)
    parent.wait()
    parent.stdout.close()
    assert process_find(record) is None


def test_runs_of_a_killed_stack_whose_node_had_another_name_end_with_the_next_start(home, sleeper, monkeypatch, capsys):
    mine = {"DLH_HOME": str(home.root), "DLH_NODE_NAME": "old-name"}
    run = sleeper("-m", "worker.supervisor", f"{home.jobs}/abc", "1", **mine)
    joined = sleeper("-m", "worker.supervisor", f"{home.jobs}/def", "1", **{**mine, "DLH_HOME": str(home.root / "n2")})
    home.state_write({"node": "old-name"})

    def start():
        monkeypatch.setattr(Stack, "_broker_start", Mock(side_effect=StackError("far enough")))
        with pytest.raises(StackError, match="far enough"):
            Stack(home).start()

    monkeypatch.setenv("DLH_NODE_NAME", "old-name")
    start()
    assert run.is_running(), "a run of a name that stays goes on: the node finds it again"
    monkeypatch.setenv("DLH_NODE_NAME", "new-name")
    start()
    assert not run.is_running() or run.status() == psutil.STATUS_ZOMBIE
    assert "ended 1 run of this node's old name old-name" in capsys.readouterr().out
    assert joined.is_running()

"""Starting, starting again, starting beside, stopping."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios

import httpx
import pytest

from harness.datasets.samples import sample_file
from tests.e2e.stack import (
    END_TIMEOUT_S,
    REPOSITORY,
    START_TIMEOUT_S,
    STOP_TIMEOUT_S,
    clean_environment,
    items,
    processes_of,
    wait_for,
)

pytestmark = pytest.mark.stack


def _call(environment, *arguments):
    command = [sys.executable, "-m", "harness.stack", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)


def test_a_second_start_names_the_first_and_changes_nothing(stack):
    before = stack.state()
    done = _call(stack.environment, "run")
    assert done.returncode == 0
    assert stack.url in done.stdout
    assert stack.state() == before


def test_a_second_home_runs_beside_on_another_port_and_ctrl_c_leaves_nothing(stack, make_stack):
    other = make_stack().wait_running()
    assert other.url != stack.url
    assert other.password and stack.password and other.password != stack.password
    assert other.stop(signal.SIGINT) == 0
    wait_for(lambda: not processes_of(other.home), timeout_s=END_TIMEOUT_S, what="every process has ended")
    assert stack.get("/pool")["nodes"]
    assert _call(other.environment, "status").returncode == 1


def _take_terminal():
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests themselves may run under nohup
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_terminal_that_closes_ends_everything(tmp_path):
    home = tmp_path / "home"
    master, slave = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.stack", "run"],
        cwd=REPOSITORY,
        env=clean_environment(home),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(slave)
    try:
        wait_for(lambda: _record(home).get("state") == "running", timeout_s=START_TIMEOUT_S, what="the stack starts")
        os.close(master)
        process.wait(STOP_TIMEOUT_S)
        wait_for(lambda: not processes_of(home), timeout_s=END_TIMEOUT_S, what="every process has ended")
        assert _record(home)["state"] == "stopped"
    finally:
        for left in processes_of(home):
            left.kill()


def _record(home):
    record = home / "run" / "stack.json"
    return json.loads(record.read_text()) if record.exists() else {}


@pytest.mark.parametrize("part", ["portal", "control", "node"])
def test_each_part_of_a_running_stack_is_seen_to_work(stack, part):
    environment = {**stack.environment, "DLH_PORT": stack.url.rpartition(":")[2]}
    command = [sys.executable, "-m", "harness.stack.part", "health", part]
    wait_for(
        lambda: subprocess.run(command, cwd=REPOSITORY, env=environment).returncode == 0,
        timeout_s=START_TIMEOUT_S,
        what=f"{part} works",
    )


def test_the_record_shows_no_password(stack):
    done = _call(stack.environment, "status")
    assert done.returncode == 0
    assert "redis://" not in done.stdout
    assert stack.url in done.stdout


def test_the_first_password_signs_in_and_is_printed_once(make_stack):
    first = make_stack().wait_running()
    password = first.password
    with httpx.Client(base_url=first.url, follow_redirects=True) as browser:
        browser.get("/login")
        token = next(value for name, value in browser.cookies.items() if name.startswith("dlh_csrf"))
        form = {"username": first.user, "password": password, "csrfmiddlewaretoken": token}
        answer = browser.post("/login", data=form, headers={"Referer": f"{first.url}/login"})
        assert answer.status_code == 200
        assert answer.url.path != "/login"
    first.stop()
    first.output.unlink()
    again = make_stack(first.home).wait_running()
    assert password not in again.text()
    assert "as set before" in again.text()


def test_a_stopped_stack_resumes_its_runs_at_the_next_start(make_stack, tmp_path):
    first = make_stack().wait_running()
    dataset = first.upload(sample_file("digits", tmp_path), "digits")
    spec = {"training": {"epochs": 15, "seed": 1, "patience": 0}, "checkpoints": {"every_epochs": 1}}
    job = first.job_submit(dataset, {"name": "outlives the stack", **spec})
    first.job_wait_step(job, 1)
    first.job_wait_checkpoint(job)
    assert first.stop() == 0
    wait_for(lambda: not processes_of(first.home), timeout_s=END_TIMEOUT_S, what="every process has ended")
    again = make_stack(first.home).wait_running()
    again.job_wait(job, "succeeded")
    assert len(items(again.get(f"/jobs/{job}/attempts"))) == 2


def test_a_killed_stack_leaves_the_run_alone_and_finds_it_again(make_stack, tmp_path):
    first = make_stack().wait_running()
    dataset = first.upload(sample_file("digits", tmp_path), "digits")
    job = first.job_submit(dataset, {"name": "outlives a kill", "training": {"epochs": 15, "seed": 1, "patience": 0}})
    first.job_wait_step(job, 1)
    first.process.kill()
    first.process.wait()
    again = make_stack(first.home).wait_running()
    again.job_wait(job, "succeeded")

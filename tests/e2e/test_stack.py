"""What a stack that runs says and shows, and that it ends with its terminal; ends and starts anew: `test_stack_again`.

Nothing here is another on another database.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios

import httpx
import pytest

from tests.e2e.stack import (
    END_TIMEOUT_S,
    NO_TLS,
    REPOSITORY,
    START_TIMEOUT_S,
    STOP_TIMEOUT_S,
    clean_environment,
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


def test_the_portal_takes_a_large_body_of_somebody_alone(stack):
    """By a token, by none, and by a token and a session that were made up; the portal goes on."""
    place, body = f"{stack.url}/api/v1/predictions", b" " * (2 << 20)
    state, cookie = stack.state(), {"Cookie": f"dlh_session_{httpx.URL(stack.url).port}=made-up"}
    claims = ({"Authorization": f"Bearer {stack.token}"}, {}, {"Authorization": "Bearer dlh_made-up"}, cookie)
    told = [httpx.post(place, content=body, headers=claim, verify=NO_TLS, timeout=60).status_code for claim in claims]
    assert told == [404, 413, 401, 401]
    assert stack.state()["children"] == state["children"]

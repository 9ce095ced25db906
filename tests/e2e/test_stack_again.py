"""One home that is started, ended, started again, killed and started once more, beside a stack that just runs on."""

import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from harness.datasets.samples import sample_file
from tests.e2e.held import job_hold, job_let_go
from tests.e2e.people import signed_in
from tests.e2e.stack import END_TIMEOUT_S, REPOSITORY, RunningStack, items, processes_of, wait_for

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def ended(stack, tmp_path_factory):
    """What is known of a stack that Ctrl-C ended while a job of its trained; it began while another ran."""
    folder = tmp_path_factory.mktemp("again")
    first = RunningStack(folder / "home")
    try:
        first.wait_running()
        with signed_in(first) as browser:
            welcome = browser.get("/account/").url.path == "/account/"
        wine = first.upload(sample_file("wine", folder), "wine")
        job = job_hold(first, wine, name="outlives the stack")
        first.job_wait_checkpoint(job)
        url, exited = first.url, first.stop(signal.SIGINT)
        wait_for(lambda: not processes_of(first.home), timeout_s=END_TIMEOUT_S, what="every process has ended")
        command = [sys.executable, "-m", "harness.stack", "status"]
        told = subprocess.run(command, cwd=REPOSITORY, env=first.environment, capture_output=True).returncode
    finally:
        first.kill()
    return SimpleNamespace(stack=first, url=url, signed_in=welcome, wine=wine, job=job, exited=exited, told=told)


@pytest.fixture(scope="module")
def killed(ended):
    """The same home started again, and killed while another job trained."""
    ended.stack.output.unlink()
    job_let_go(ended.stack, ended.job)
    again = RunningStack(ended.stack.home)
    try:
        again.wait_running()
        resumed = again.job_wait(ended.job, "succeeded")
        attempts = items(again.get(f"/jobs/{ended.job}/attempts"))
        job = job_hold(again, ended.wine, name="outlives a kill")
        text = again.text()
        again.process.kill()
        again.process.wait()
        yield SimpleNamespace(stack=again, text=text, resumed=resumed, attempts=attempts, job=job)
    finally:
        again.kill()


def test_a_second_home_runs_beside_on_another_port_and_ctrl_c_leaves_nothing(stack, ended):
    assert ended.url != stack.url
    assert ended.stack.password and stack.password and ended.stack.password != stack.password
    assert (ended.exited, ended.told) == (0, 1)
    assert stack.get("/pool")["nodes"]


def test_the_first_password_signs_in_and_is_printed_once(ended, killed):
    assert ended.signed_in
    assert ended.stack.password not in killed.text
    assert "as set before" in killed.text


def test_a_stopped_stack_resumes_its_runs_at_the_next_start(killed):
    assert killed.resumed["state"] == "succeeded"
    assert len(killed.attempts) == 2


def test_a_killed_stack_leaves_the_run_alone_and_finds_it_again(killed):
    once_more = RunningStack(killed.stack.home)
    try:
        once_more.wait_running()
        job_let_go(once_more, killed.job)
        once_more.job_wait(killed.job, "succeeded")
    finally:
        once_more.kill()

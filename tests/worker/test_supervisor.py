"""One attempt from start to end, with real processes in the real sandbox and a real broker."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import psutil
import pytest
import redis

from tests.worker.conftest import JOB_ID, JobFixture, wait_for
from worker import agent, registry, sandbox
from worker.events import EventKind

STEPS = """
for step in range(1, 4):
    tell("progress", step=step, steps_total=3, epoch=1, epochs=1, samples_per_s=1.0, eta_s=0, phase="train")
    tell("metric", step=step, epoch=1.0, values={"train/loss": 1.0 / step})
    print("step", step, flush=True)
"""
FOREVER = """
tell("progress", step=1, phase="train")
step = 1
while not paused():
    time.sleep(0.05); step += 1
    tell("progress", step=step, phase="train")
sys.exit(75)
"""


def test_a_run_tells_its_whole_story_in_order(job: JobFixture) -> None:
    exited = job.run(STEPS)
    assert exited.data == {"outcome": "succeeded", "failure": None, "node": "testnode", "rescue": []}
    wait_for(lambda: job.kinds()[-1:] == ["exited"])
    kinds = job.kinds()
    assert kinds[0] == "started"
    assert kinds.index("running") < kinds.index("progress")
    assert kinds.count("running") == 1
    assert kinds.count("metric") == 3
    assert "step 3" in job.log()


def test_job_token_rank_and_sequence_are_stamped_whatever_a_rank_claims(job: JobFixture) -> None:
    forged = """
tell("exited", outcome="succeeded")
tell("started")
print("{broken", file=open(os.environ["DLH_EVENTS"], "a"))
"""
    job.run(STEPS + forged)
    wait_for(lambda: job.kinds()[-1:] == ["exited"])
    events = [event for event in job.events() if event.rank >= 0]
    assert {(event.job_id, event.token, event.rank) for event in events} == {(JOB_ID, 1, 0)}
    assert [event.seq for event in events] == list(range(len(events)))
    assert job.kinds().count("exited") == 1
    assert any("not valid" in event.data.get("message", "") for event in job.events() if event.kind == EventKind.NOTE)


@pytest.fixture(params=[level for level in (0, 1, 2, 3) if level <= sandbox.host().level])
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Each sandbox level of this host in turn."""
    monkeypatch.setenv("DLH_SANDBOX_MAX_LEVEL", str(request.param))
    return request.param


def test_a_run_succeeds_at_every_level(job: JobFixture, level: int) -> None:
    assert job.run(STEPS).data["outcome"] == "succeeded", job.log()
    wait_for(lambda: job.kinds()[-1:] == ["exited"])
    assert job.events()[0].data["sandbox_level"] == level


def test_cancel_leaves_no_process_even_a_daemon_that_ignores_signals(job: JobFixture, level: int) -> None:
    job.program(
        """
import signal
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        tell("note", message="daemon")
        while True:
            time.sleep(1)
    os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
tell("progress", step=1)
while True:
    time.sleep(1)
"""
    )
    job.start(job.plan())
    wait_for(lambda: "note" in job.kinds() and "running" in job.kinds())
    wait_for(lambda: len(job.processes()) == 2)  # the rank and its daemon; the one between them has left
    assert agent.attempt_stop(JOB_ID, 1, "cancel")
    assert job.exited().data["outcome"] == "cancelled"
    assert job.processes() == []


def test_ranks_that_end_since_a_newer_attempt_has_begun_are_no_fault_of_the_program(job: JobFixture) -> None:
    job.program(
        """
tell("progress", step=1, phase="train")
while not os.path.exists(os.environ["DLH_WORK"] + "/go"):
    time.sleep(0.01)
sys.exit(1)
"""
    )
    job.start(job.plan())
    wait_for(lambda: "running" in job.kinds())
    registry.fence_raise(job.paths, 2)
    (job.paths.work / "go").touch()
    assert job.exited().data["outcome"] == "lost"


def test_ranks_end_when_those_of_another_node_have(job: JobFixture) -> None:
    job.program(FOREVER)
    job.start(job.plan())
    wait_for(lambda: "running" in job.kinds())
    assert agent.attempt_stop(JOB_ID, 1, "end")
    assert job.exited().data["outcome"] == "cancelled"
    assert not (job.paths.requests(1) / "pause").exists()


def test_a_pause_request_ends_the_attempt_as_paused(job: JobFixture) -> None:
    job.program(FOREVER)
    job.start(job.plan())
    wait_for(lambda: "running" in job.kinds())
    assert agent.attempt_stop(JOB_ID, 1, "pause")
    assert job.exited().data == {"outcome": "paused", "failure": None, "node": "testnode", "rescue": []}


def test_a_pause_waits_for_an_evaluation_that_gets_on(job: JobFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLH_PAUSE_S", "2")
    body = """
tell("progress", step=1, phase="train")
while not paused(): time.sleep(0.05)
for _ in range(60):
    tell("metric", step=1, epoch=0.1, values={})
    time.sleep(0.1)
open(os.environ["DLH_WORK"] + "/saved", "w").close()
sys.exit(75)
"""
    job.program(body)
    job.start(job.plan())
    wait_for(lambda: "running" in job.kinds())
    assert agent.attempt_stop(JOB_ID, 1, "pause")
    assert job.exited().data["outcome"] == "paused"
    assert (job.paths.work / "saved").exists(), "it was ended before it could save"


LONG_STEPS = """
tell("metric", step=0, epoch=0.0, values={}, expected_step_s=3.0)
for step in range(1, 9):
    time.sleep(3)
    tell("progress", step=step, phase="train")
    if paused(): sys.exit(75)
"""


def test_a_run_whose_steps_take_longer_than_the_limit_is_not_taken_for_stuck(job: JobFixture) -> None:
    exited = job.run(LONG_STEPS.replace("range(1, 9)", "range(1, 3)"), limits={"stall_s": 1.5})
    assert exited.data["outcome"] == "succeeded", job.log()


def test_a_pause_waits_for_a_long_step_and_says_so(job: JobFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLH_PAUSE_S", "0.5")
    job.program(LONG_STEPS.replace("expected_step_s=3.0", "expected_step_s=12.0"))
    job.start(job.plan())
    wait_for(lambda: "running" in job.kinds())
    assert agent.attempt_stop(JOB_ID, 1, "pause")
    assert job.exited().data["outcome"] == "paused"
    notes = [event.data["message"] for event in job.events() if event.kind == EventKind.NOTE]
    assert any("after the step under way" in note for note in notes)


def test_a_killed_rank_means_lost_and_its_sibling_is_stopped(job: JobFixture) -> None:
    job.program('tell("progress", step=1)\nwhile True: time.sleep(0.1)\n')
    job.start(job.plan(ranks=2, backend="torch"))
    victims = wait_for(lambda: len(job.processes()) == 2 and "running" in job.kinds() and job.processes())
    victims[1].kill()
    exited = job.exited()
    assert exited.data["outcome"] == "lost"
    assert exited.data["failure"]["code"] == "rank_killed"
    assert job.processes() == []


def test_an_own_report_is_the_cause_of_the_failure(job: JobFixture) -> None:
    exited = job.run('tell("error", code="nan_loss", message="NaN at step 7", hint="h", step=7)\nsys.exit(65)')
    assert exited.data["outcome"] == "failed"
    assert exited.data["failure"]["code"] == "nan_loss"
    assert exited.data["failure"]["step"] == 7


def test_without_a_report_the_end_of_the_log_tells_the_cause(job: JobFixture) -> None:
    exited = job.run('raise ValueError("bad shape in layer 3")')
    assert exited.data["outcome"] == "failed"
    assert exited.data["failure"]["code"] == "program_error"
    assert "bad shape in layer 3" in exited.data["failure"]["message"]


def test_a_memory_hog_is_told_as_out_of_memory(job: JobFixture) -> None:
    body = 'tell("progress", step=1)\nhog = []\nwhile True: hog.append(bytearray(32 << 20))'
    exited = job.run(body, limits={"memory_bytes": 400 << 20})
    assert exited.data["outcome"] == "failed"
    assert exited.data["failure"]["code"] == "out_of_memory"


def test_a_disk_filler_is_told_as_disk_full(job: JobFixture) -> None:
    body = """
tell("progress", step=1)
for index in range(1000):
    with open(f"{os.environ['DLH_WORK']}/fill-{index}", "wb") as file:
        file.write(b"x" * (4 << 20))
    time.sleep(0.02)
"""
    exited = job.run(body, limits={"disk_bytes": 40 << 20})
    assert exited.data["failure"]["code"] == "disk_full"


def test_a_run_without_progress_is_ended_as_stalled(job: JobFixture) -> None:
    exited = job.run("while True: print('busy', flush=True); time.sleep(0.2)", limits={"stall_s": 1.5})
    assert exited.data["outcome"] == "failed"
    assert exited.data["failure"]["code"] == "stalled"


def test_a_log_flood_is_limited_and_the_last_lines_are_kept(job: JobFixture, monkeypatch) -> None:
    body = """
line = "x" * 1000 + "\\n"
for index in range(60):
    sys.stdout.write(line * 1000)
print("\\x1b[31mlast\\x1b[0m words")
"""
    assert job.run(body).data["outcome"] == "succeeded"
    file = job.paths.rank_log(1, 0)
    assert file.stat().st_size < 34 << 20
    assert job.log().rstrip().endswith("last words")
    assert "left out" in job.log()


def test_a_stale_token_is_refused(job: JobFixture) -> None:
    job.program(FOREVER)
    assert job.start(job.plan(token=2))
    assert not job.start(job.plan(token=1))
    assert not job.start(job.plan(token=2))
    assert len(registry.entries()) == 1


def test_a_newer_token_ends_the_older_supervisor(job: JobFixture) -> None:
    job.program(FOREVER)
    job.start(job.plan(token=1))
    wait_for(lambda: "running" in job.kinds())
    job.start(job.plan(token=2))
    assert job.exited(1).data["outcome"] == "lost"
    assert [entry.token for entry in agent.sweep()] == [2]


def test_a_killed_supervisor_takes_its_ranks_along_and_is_recorded_as_lost(job: JobFixture, level: int) -> None:
    job.program(FOREVER)
    job.start(job.plan())
    wait_for(lambda: "running" in job.kinds())
    psutil.Process(registry.entries()[0].pid).kill()
    wait_for(lambda: not job.processes())
    assert agent.sweep() == []
    assert job.exited().data["failure"]["code"] == "node_lost"


def test_a_stop_before_the_start_is_answered_and_the_late_start_refused(job: JobFixture) -> None:
    job.program(FOREVER)
    assert not agent.attempt_stop(JOB_ID, 1, "cancel")
    assert job.events()[-1].data["outcome"] == "cancelled"
    assert not job.start(job.plan())


def test_too_weak_a_sandbox_is_refused_with_the_reason(job: JobFixture) -> None:
    exited = job.run(STEPS, minimum_sandbox_level=9)
    assert exited.data["failure"]["code"] == "sandbox_too_weak"


def test_a_broker_that_was_away_gets_everything_later(job: JobFixture) -> None:
    job.program(FOREVER)
    job.start(job.plan())
    wait_for(lambda: "running" in job.kinds())
    redis.Redis.from_url(job.url).execute_command("CLIENT", "PAUSE", "3000", "ALL")
    agent.attempt_stop(JOB_ID, 1, "pause")
    job.exited()
    wait_for(lambda: job.kinds()[-1:] == ["exited"])
    steps = [event.data["step"] for event in job.events() if event.kind == EventKind.PROGRESS]
    assert steps == sorted(set(steps))
    assert steps == list(range(1, len(steps) + 1))


def signalled(job: JobFixture, body: str, *numbers: signal.Signals, sign: str = "running") -> dict[str, Any]:
    """Send these to the supervisor of a program once it has told this, and return how the attempt ended."""
    job.program(body)
    job.start(job.plan())
    wait_for(lambda: sign in job.kinds())
    for number in numbers:
        os.kill(registry.entries()[0].pid, number)
    ended = job.exited().data
    assert job.processes() == []
    return ended


def test_a_run_whose_node_is_shut_down_saves_first_and_is_lost_all_the_same(job: JobFixture) -> None:
    ended = signalled(job, FOREVER, signal.SIGTERM)
    assert (ended["outcome"], ended["failure"]["code"]) == ("lost", "node_stopped")
    assert ended["failure"]["saved"] and "saved first" in ended["failure"]["message"]


IGNORES = 'tell("progress", step=1, phase="train")\nwhile True: time.sleep(0.1)\n'


def test_one_that_does_not_save_in_time_is_ended(job: JobFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLH_STOP_SAVE_S", "0.5")
    ended = signalled(job, IGNORES, signal.SIGTERM)
    assert (ended["outcome"], ended["failure"]["code"], ended["failure"]["saved"]) == ("lost", "node_stopped", False)


def test_one_that_has_nothing_to_save_yet_is_not_asked(job: JobFixture) -> None:
    ended = signalled(job, "while True: time.sleep(0.1)\n", signal.SIGTERM, sign="started")
    assert (ended["outcome"], ended["failure"]["code"]) == ("lost", "node_stopped")
    assert not (job.paths.requests(1) / "pause").exists()


def test_who_does_not_want_to_wait_until_a_run_has_saved_ends_it_at_once(job: JobFixture) -> None:
    ended = signalled(job, IGNORES, signal.SIGTERM, signal.SIGINT)
    assert (ended["outcome"], ended["failure"]["saved"]) == ("lost", False)


def test_a_run_that_pauses_when_its_node_is_shut_down_is_paused(job: JobFixture) -> None:
    job.program(FOREVER.replace("sys.exit(75)", "time.sleep(2); sys.exit(75)"))
    job.start(job.plan())
    wait_for(lambda: "running" in job.kinds())
    assert agent.attempt_stop(JOB_ID, 1, "pause")
    time.sleep(0.5)  # the supervisor looks for it ten times a second
    os.kill(registry.entries()[0].pid, signal.SIGTERM)
    assert job.exited().data["outcome"] == "paused"


def test_a_program_that_never_begins_a_run_fails_although_it_ends_well(job: JobFixture) -> None:
    job.program("")
    (job.paths.program / "train.py").write_text("print('hello')\n")
    plan = job.plan()
    assert job.start(plan)
    exited = job.exited()
    assert exited.data["outcome"] == "failed"
    assert "Run.start" in exited.data["failure"]["message"]

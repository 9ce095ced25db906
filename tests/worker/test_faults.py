"""Ranks that break and what becomes of their siblings: rows of docs/faults.md that need no portal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.worker.conftest import JOB_ID, JobFixture, wait_for
from tests.worker.pairs import TELL
from worker import agent, registry
from worker.home import REPOSITORY

pytestmark = pytest.mark.ranks
DEAF = """
import signal
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
tell("progress", step=1)
while True: time.sleep(0.1)
"""
"""A sibling that hears nothing and needs nobody."""
SECOND = "if os.environ['DLH_RANK'] == '1':\n    "
ADD = """
import faulthandler, signal, threading
ready = threading.Event()
def tick():
    seconds = 0
    while not ready.wait(1.0):
        seconds += 1
        tell("progress", step=0, epoch=seconds, phase="loading")
threading.Thread(target=tick, daemon=True).start()
import horovod.torch as hvd, torch
faulthandler.register(signal.SIGUSR1, all_threads=False)
hvd.init()
ready.set()
def dream():
    time.sleep(1000)
for step in range(1, 10**9):
    hvd.allreduce(torch.ones(8), name="sum")
    tell("progress", step=step, phase="train")
    if step == 5 and hvd.rank() == 1:
        BREAK
"""


def ended(job: JobFixture, body: str, **changes) -> tuple[str, dict]:
    """(outcome, failure) of two ranks; none of their processes is left."""
    exited = job.run(body, ranks=2, **changes)
    assert job.processes() == [], job.log(0) + job.log(1)
    return exited.data["outcome"], exited.data["failure"]


def test_a_terminated_rank_is_told_as_killed_from_outside_and_its_deaf_sibling_ends(job: JobFixture) -> None:
    outcome, failure = ended(job, f"{SECOND}os.kill(os.getpid(), 15)\n{DEAF}", backend="torch")
    assert (outcome, failure["code"]) == ("lost", "rank_killed")
    assert "Rank 1" in failure["message"] and "SIGTERM" in failure["message"]


def test_a_rank_that_raises_is_named_and_its_deaf_sibling_ends(job: JobFixture) -> None:
    outcome, failure = ended(job, f"{SECOND}raise ValueError('bad row 7')\n{DEAF}", backend="torch")
    assert (outcome, failure["code"]) == ("failed", "program_error")
    assert "Rank 1" in failure["message"] and "bad row 7" in failure["message"]


def test_one_of_two_ranks_that_takes_all_memory_ends_both_and_is_no_fault_of_the_platform(job: JobFixture) -> None:
    hog = "hog = []\n    while True: hog.append(bytearray(32 << 20))"
    outcome, failure = ended(job, f"{SECOND}{hog}\n{DEAF}", backend="torch", limits={"memory_bytes": 500 << 20})
    assert (outcome, failure["code"]) == ("failed", "out_of_memory")


def test_a_rank_that_ends_early_as_if_all_were_done_is_a_fault_of_the_program(job: JobFixture) -> None:
    outcome, failure = ended(job, ADD.replace("BREAK", "os._exit(0)"))
    assert (outcome, failure["code"]) == ("failed", "program_error"), job.log(0)
    assert "Rank 1 ended before the others were done" in failure["message"]


def test_a_rank_stuck_in_its_program_is_found_by_the_missing_progress_and_told_with_its_line(job: JobFixture) -> None:
    outcome, failure = ended(job, ADD.replace("BREAK", "dream()"), limits={"stall_s": 6.0})
    assert (outcome, failure["code"]) == ("failed", "stalled"), job.log(0)
    line = (TELL + ADD).splitlines().index("    time.sleep(1000)") + 1
    assert f"Rank 1 stands in train.py, line {line} (dream)" in failure["message"], job.log(1)
    assert "rank 0" not in failure["message"]
    assert f'File "train.py", line {line}, in dream' in failure["traceback"]


FOREVER = """
tell("progress", step=1, phase="train")
while not paused(): time.sleep(0.05)
sys.exit(75)
"""


def test_a_run_on_a_machine_that_was_started_anew_is_lost_and_told_so(job: JobFixture, monkeypatch) -> None:
    job.program(FOREVER)
    job.start(job.plan())
    wait_for(lambda: "running" in job.kinds())
    (entry,) = registry.entries()
    psutil.Process(entry.pid).kill()
    wait_for(lambda: not job.processes())
    monkeypatch.setattr("worker.devices.boot_id", lambda: "of the next start")
    assert agent.sweep() == []
    assert "was restarted" in job.exited().data["failure"]["message"]


def test_a_process_of_this_start_is_not_taken_for_a_supervisor_of_the_one_before(job: JobFixture, monkeypatch) -> None:
    own = psutil.Process()
    facts = {"job_id": JOB_ID, "token": 1, "job_dir": str(job.paths.root)}
    entry = registry.Entry(**facts, pid=own.pid, created_s=registry.process_created_s(own.pid))
    assert entry.process() == own
    monkeypatch.setattr("worker.devices.boot_id", lambda: "of the next start")
    assert entry.process() is None


def test_a_clock_that_is_set_takes_no_run_from_its_node(job: JobFixture, monkeypatch) -> None:
    job.program(FOREVER)
    job.start(job.plan())
    wait_for(lambda: "running" in job.kinds())
    # The kernel tells the moment of its start by the wall clock, as it is set now.
    later_s = psutil.boot_time() + 3600
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: later_s)
    (entry,) = agent.sweep()
    assert entry.token == 1
    assert agent.attempt_stop(job.job_id, 1, "pause")
    assert job.exited().data["outcome"] == "paused"


SAVER = """
import torch
from pathlib import Path
from worker.runtime.checkpoint import CheckpointStore
token = int(os.environ["DLH_ATTEMPT"])
store = CheckpointStore(Path(os.environ["DLH_WORK"], "checkpoints"), 3, True, token)
store.claim()
step = max([saved.step for saved in store.saved()], default=0)
while not paused():
    step += 1
    try:
        store.save({"token": token}, step=step, epoch=0.0, metric=None)
        store.purge()
        tell("progress", step=step, phase="train")
    except Exception as error:
        print("not saved:", type(error).__name__, flush=True)
    time.sleep(0.02)
sys.exit(75)
"""
"""Saves as often as it can, whatever it is told."""
ELSEWHERE = """
import sys
from pathlib import Path
from worker import agent
from worker.plan import RunPaths, RunPlan
import json
if len(sys.argv) > 1:
    plan = RunPlan.from_dict(json.loads(Path(sys.argv[1]).read_text()))
    assert agent.attempt_start(plan, RunPaths(Path(plan.job_dir)))
else:
    agent.stop_all()
"""


def tokens_saved(job: JobFixture) -> dict[int, int]:
    """Step -> attempt that wrote it, of all checkpoints there are."""
    import torch

    found = {}
    for folder in job.paths.checkpoints.glob("step-*"):
        try:
            state = torch.load(folder / "state.pt", weights_only=True)
        except FileNotFoundError:
            continue  # purged meanwhile
        found[int(folder.name.removeprefix("step-"))] = int(state["token"])
    return found


def test_a_frozen_attempt_that_wakes_beside_its_successor_ends_and_has_written_nothing(
    job: JobFixture, tmp_path: Path
) -> None:
    """The successor runs on another node with the same store, as after a lost node; the old one is not asked to end."""
    job.program(SAVER)
    job.start(job.plan())
    wait_for(lambda: len(tokens_saved(job)) >= 3)
    supervisor = psutil.Process(registry.entries()[0].pid)
    frozen = [supervisor, *supervisor.children(recursive=True)]
    for process in frozen:
        process.send_signal(signal.SIGSTOP)
    other = {**os.environ, "DLH_HOME": str(tmp_path / "other"), "DLH_NODE_NAME": "other", "PYTHONPATH": str(REPOSITORY)}
    plan = job.plan(token=2).to_json().replace('"testnode"', '"other"')
    (tmp_path / "plan.json").write_text(plan)
    command = [sys.executable, "-c", ELSEWHERE]
    subprocess.run([*command, str(tmp_path / "plan.json")], env=other, check=True)
    try:
        wait_for(lambda: set(tokens_saved(job).values()) == {2})
        for process in frozen:
            process.send_signal(signal.SIGCONT)
        assert job.exited(1).data["outcome"] == "lost"
        wait_for(lambda: not any(process.is_running() for process in frozen[1:]))
        seen = max(tokens_saved(job))
        wait_for(lambda: max(tokens_saved(job)) > seen + 3)
        assert set(tokens_saved(job).values()) == {2}, job.log(0, 1)
        assert "not saved" not in job.log(0, 2)
    finally:
        subprocess.run(command, env=other, check=True)

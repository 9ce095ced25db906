"""Ways to hurt a running stack, and what must hold after each: used by tests and by the fault bench."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import httpx
import psutil
import redis

from tests.e2e.stack import ENDED, START_TIMEOUT_S, RunningStack, items, processes_of, wait_for
from worker.fence import DESK

REST_TIMEOUT_S = 120.0
_ATTEMPTS, _SCRATCH = "attempts/*/*.json", "sandbox/{}-[0-9]*-*"
"""Below `run`: whom the agent believes to run, and scratch folders of a job's sandboxes. Those of a reading, say, whose
agent was killed are kept for a day."""
_GROUPS = ("dlh/{}-{}-*", "*/dlh/{}-{}-*")
"""Control groups of an attempt, in either version of them, by the home of its node: a lost machine keeps its own."""
_EVENTS = "work/events/attempt-*/rank-*.jsonl"
MARK = "dlh:test:memory"
POLL_S = 0.0005
"""A checkpoint is written within milliseconds."""


def job_folder(stack: RunningStack, job: str) -> Path:
    """Where the job lies on disk."""
    return stack.home / "store" / "jobs" / job


def broker_of(stack: RunningStack) -> redis.Redis:
    """A client of the stack's broker."""
    return redis.Redis.from_url(stack.state()["redis_url"], decode_responses=True, socket_timeout=5)


def cores_of(stack: RunningStack) -> int:
    """CPU devices of the pool."""
    return sum(device["kind"] == "cpu" for node in stack.get("/pool")["nodes"] for device in node["devices"])


# -- faults ----------------------------------------------------------------------------------------------------------


def broker_forget(stack: RunningStack) -> float:
    """Kill the broker and take its files away before it is started again; seconds until it answers, empty."""
    broker_of(stack).set(MARK, "1")
    began_s, old = time.monotonic(), stack.child("broker")
    os.kill(old, signal.SIGKILL)
    shutil.rmtree(stack.home / "broker" / "appendonlydir")

    def answers() -> bool:
        with contextlib.suppress(redis.RedisError):
            return stack.child("broker") not in {0, old} and bool(broker_of(stack).ping())
        return False

    wait_for(answers, timeout_s=START_TIMEOUT_S, what="the broker is started again")
    assert broker_of(stack).get(MARK) is None, "it has not lost its memory"
    return time.monotonic() - began_s


@contextlib.contextmanager
def database_locked(stack: RunningStack) -> Iterator[None]:
    """Hold SQLite's write lock, as a backup or a person's shell would."""
    connection = sqlite3.connect(stack.home / "db.sqlite3", timeout=60, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
    finally:
        connection.rollback()
        connection.close()


def newest_state(stack: RunningStack, job: str) -> Path:
    """The state file of the job's newest checkpoint on disk."""
    return max((job_folder(stack, job) / "work" / "checkpoints").glob("step-*")) / "state.pt"


def flip_bit(file: Path) -> None:
    """Change one bit in the middle."""
    body = bytearray(file.read_bytes())
    body[len(body) // 2] ^= 0x10
    file.write_bytes(body)


def cut_in_half(file: Path) -> None:
    """Lose the second half."""
    os.truncate(file, file.stat().st_size // 2)


@contextlib.contextmanager
def held_at(stage: str, stack: RunningStack, job: str) -> Iterator[None]:
    """Hold a job of one rank at a stage of its life: its rank stands still there until the block is left."""
    if stage == "placed":
        stack.job_wait(job, "placed", "running")
        yield
        return
    work = job_folder(stack, job) / "work"
    there: Callable[[], bool] = {
        "starting": lambda: True,
        "checkpointing": lambda: any((work / "checkpoints").glob(f"{DESK}*/step-*")),
        "ending": (work / "results" / "predictions.parquet").exists,
    }[stage]
    (rank,) = wait_for(lambda: stack.ranks(job), timeout_s=START_TIMEOUT_S, what=f"{job} has a rank")
    _suspend(rank, there, f"{job} is {stage}")
    try:
        yield
    finally:
        with contextlib.suppress(psutil.Error):
            rank.resume()


def _suspend(rank: psutil.Process, there: Callable[[], bool], what: str) -> None:
    """Stop the process in a moment in which `there` holds."""
    end_s = time.monotonic() + START_TIMEOUT_S
    while True:
        while not there():
            assert time.monotonic() < end_s, f"{what}: not within {START_TIMEOUT_S:.0f} s"
            time.sleep(POLL_S)
        rank.suspend()
        while (status := rank.status()) != psutil.STATUS_STOPPED:
            assert status != psutil.STATUS_ZOMBIE, f"{what}: its rank has ended"
            time.sleep(POLL_S)
        if there():
            return
        rank.resume()


# -- what must hold --------------------------------------------------------------------------------------------------


def leftovers(stack: RunningStack, *jobs: str) -> list[str]:
    """What is left of jobs that are over: processes, devices, leases, what sandboxes and supervisors keep on the host;
    empty when all is at rest."""
    found = [f"{job} is still {state}" for job in jobs if (state := stack.job(job)["state"]) not in {*ENDED, "paused"}]
    for process in processes_of(stack.home):
        with contextlib.suppress(psutil.Error):
            command = " ".join(process.cmdline())
            if "worker.supervisor" in command or "worker.launch" in command or "train.py" in command:
                found.append(f"process {process.pid}: {command}")
    found += [
        f"device {node['name']} {device['kind']}:{device['index']} is busy"
        for node in stack.get("/pool")["nodes"]
        for device in node["devices"]
        if device["busy"]
    ]
    places = (_ATTEMPTS, *(_SCRATCH.format(job) for job in jobs))
    found += [f"{file} is kept" for place in places for file in (stack.home / "run").glob(place)]
    groups, mark = Path("/sys/fs/cgroup"), sha256(str(stack.home).encode()).hexdigest()[:12]
    kept = (folder for job in jobs for place in _GROUPS for folder in groups.glob(place.format(mark, job)))
    found += [f"{folder} is kept" for folder in kept]
    return found + [f"lease {key}" for key in broker_of(stack).scan_iter("dlh:lease:*")]


def at_rest(stack: RunningStack, *jobs: str) -> None:
    """Wait until nothing is left of jobs that are over."""
    seen: list[str] = ["not looked yet"]

    def nothing() -> bool:
        with contextlib.suppress(httpx.HTTPError, redis.RedisError):
            seen[:] = leftovers(stack, *jobs)
        return not seen

    try:
        wait_for(nothing, timeout_s=REST_TIMEOUT_S, what="nothing is left running")
    except AssertionError as error:
        raise AssertionError(f"{error}: {seen}") from error


def never_at_once(stack: RunningStack, job: str, *homes: Path) -> int:
    """That no two attempts of the job ran at the same time, by what their ranks wrote; how many wrote anything.

    `homes` of nodes with a cache: what their ranks write besides logs, checkpoints and results stays there.
    """
    spans = []
    for attempt, files in _event_files(job_folder(stack, job), *(home / "cache" / "jobs" / job for home in homes)):
        lines = [line for file in files for line in file.read_text().splitlines()]
        times = []
        for line in lines:
            with contextlib.suppress(ValueError):  # torn by a kill or a full disk
                times.append(json.loads(line)["time_s"])
        if times:
            spans.append((attempt, min(times), max(times)))
    for (older, _, last_s), (newer, first_s, _) in zip(sorted(spans), sorted(spans)[1:], strict=False):
        assert last_s <= first_s, f"attempts {older} and {newer} of {job} ran at once for {last_s - first_s:.2f} s"
    return len(spans)


def _event_files(*folders: Path) -> list[tuple[int, list[Path]]]:
    """Attempt by attempt what its ranks wrote, those of nodes that did not have the first rank, too."""
    found: dict[int, list[Path]] = {}
    for folder in folders:
        for file in (*folder.glob(_EVENTS), *folder.glob(f"parts/*/{_EVENTS}")):
            found.setdefault(int(file.parent.name.removeprefix("attempt-")), []).append(file)
    return sorted(found.items())


def succeeded_after(
    stack: RunningStack, job: str, *outcomes: str, homes: Sequence[Path] = ()
) -> list[dict[str, object]]:
    """That the job, which has succeeded, made all its steps in attempts that ended so before the last, one at a time,
    each but the first from a checkpoint, and left nothing behind; its attempts. `homes` as in `never_at_once`."""
    body, rows = stack.job(job), attempts(stack, job)
    assert (body["state"], body["step"], body["epoch"]) == ("succeeded", body["steps_total"], body["epochs"]), body
    assert [row["outcome"] for row in rows] == [*outcomes, "succeeded"], rows
    assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
    assert all(row["resume_from"] for row in rows[1:]), "it began anew"
    # One that is lost while the scheduler has it pause does not count.
    assert body["restarts"] <= outcomes.count("lost"), history(stack, job)
    assert never_at_once(stack, job, *homes) == len(rows)
    assert checkpoints_are_whole(stack, job)
    assert stack.get(f"/jobs/{job}/results")["metric"]
    at_rest(stack, job)
    return rows


def checkpoints_are_whole(stack: RunningStack, job: str) -> int:
    """That every checkpoint the API names is on disk with the hash of its manifest; how many there are."""
    named = [row["name"] for row in items(stack.get(f"/jobs/{job}/checkpoints")) if not row.get("removed_at")]
    for name in named:
        folder = job_folder(stack, job) / "work" / "checkpoints" / name
        for file, entry in json.loads((folder / "MANIFEST.json").read_text())["files"].items():
            assert sha256((folder / file).read_bytes()).hexdigest() == entry["sha256"], f"{name}/{file} is damaged"
    return len(named)


def attempts(stack: RunningStack, job: str) -> list[dict[str, object]]:
    """Attempts of a job, oldest first."""
    return sorted(items(stack.get(f"/jobs/{job}/attempts")), key=lambda attempt: int(attempt["number"]))


def history(stack: RunningStack, job: str) -> str:
    """Everything its history says, as one text."""
    return "\n".join(str(row["message"]) for row in items(stack.get(f"/jobs/{job}/events")))

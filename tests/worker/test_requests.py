"""Starts and stops that cross each other, and programs beside training."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
import redis

from tests.worker.conftest import JobFixture, wait_for
from worker import agent, exits, registry
from worker.events import lease_key
from worker.launch import CANCEL_FILE
from worker.programs import ProgramQueue


@pytest.fixture
def stand_in(job: JobFixture) -> Iterator[registry.Entry]:
    """A process that does nothing, as the supervisor of attempt 1."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        created_s = registry.process_created_s(process.pid)
        job.paths.attempt(1).mkdir(parents=True, exist_ok=True)
        yield registry.Entry(
            job_id=job.job_id, token=1, job_dir=str(job.paths.root), pid=process.pid, created_s=created_s
        )
        registry.remove(job.job_id, 1)
        process.kill()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    ends: list[Any] = []
    monkeypatch.setattr(exits, "exited_send", lambda *arguments: ends.append(arguments))
    return ends


def test_a_stop_that_crosses_a_start_still_reaches_the_run(
    job: JobFixture, sent: list[Any], stand_in: registry.Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spawn(plan: Any, paths: Any) -> registry.Entry:
        assert not agent.attempt_stop(job.job_id, 1, "cancel")
        return stand_in

    monkeypatch.setattr(agent, "_spawn", spawn)
    assert agent.attempt_start(job.plan(), job.paths)
    assert (job.paths.requests(1) / CANCEL_FILE).exists()
    assert len(sent) == 1


def test_who_tells_of_an_end_takes_the_lease_of_nobody_who_runs_the_attempt_elsewhere(job: JobFixture) -> None:
    broker = redis.Redis.from_url(job.url)
    broker.set(lease_key(job.job_id), "1")
    assert not agent.attempt_stop(job.job_id, 1, "cancel")
    assert job.kinds() == ["exited"]
    assert broker.get(lease_key(job.job_id)) == b"1" and broker.ttl(lease_key(job.job_id)) == -1


@pytest.mark.parametrize("how", ["pause", "cancel", "rescue"])
def test_a_stop_of_a_live_run_tells_control_nothing(
    job: JobFixture, sent: list[Any], stand_in: registry.Entry, how: str
) -> None:
    registry.add(stand_in)
    assert agent.attempt_stop(job.job_id, 1, how)
    assert [path.name for path in job.paths.requests(1).iterdir()] == [how]
    assert sent == []


def test_a_run_whose_supervisor_was_killed_has_not_paused_when_it_is_asked_to(
    job: JobFixture, stand_in: registry.Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(exits, "_send", lambda event, stream=0: told.append(event.data["outcome"]))
    registry.add(stand_in)
    process = psutil.Process(stand_in.pid)
    process.kill()
    wait_for(lambda: stand_in.process() is None)
    assert not agent.attempt_stop(job.job_id, 1, "pause")
    assert told[0] == "lost"


def test_a_second_supervisor_of_one_attempt_does_not_begin(job: JobFixture, stand_in: registry.Entry) -> None:
    registry.add(stand_in)
    assert not registry.enter(job.paths, job.job_id, 1)
    assert registry.find(job.paths, 1) == stand_in


def test_a_slow_or_broken_program_keeps_no_other_waiting() -> None:
    queue = ProgramQueue(threads=2)
    release, done = threading.Event(), threading.Event()

    waited: list[bool] = []

    def broken() -> None:
        raise RuntimeError("no answer")

    queue.put(lambda: waited.append(release.wait(120)))
    queue.put(broken)
    queue.put(done.set)
    wait_for(done.is_set)
    release.set()

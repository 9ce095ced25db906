"""A node that is stopped while it returns what a run made goes on with that when it is back."""

from __future__ import annotations

import json
import os
import signal

import pytest

from harness.jobs.models import JobAttempt
from tests.harness.transfer.conftest import SECRET
from tests.waiting import wait_for
from worker import agent, registry
from worker.events import Event, Outcome
from worker.transfer.interrupted import Interrupted, interrupted_write

SAVED = {"name": "step-00000300", "step": 300, "epoch": 1.0, "metric": None, "bytes": 5, "best": None, "removed": []}


@pytest.fixture
def node_here(broker_url, depot, live_server, tmp_path, monkeypatch):
    """This process is the node: what it starts finds broker, portal and cache."""
    monkeypatch.setenv("DLH_HOME", str(tmp_path / "var"))
    monkeypatch.setenv("DLH_REDIS_URL", broker_url)
    monkeypatch.setenv("DLH_URL", live_server.url)
    monkeypatch.setenv("DLH_NODE_SECRET", SECRET)
    monkeypatch.setenv("DLH_CACHE", str(depot.cache.root))
    yield
    agent.stop_all()


@pytest.fixture
def left(node_here, plan, here):
    """A run that has succeeded and of which nothing was returned; its supervisor is not there any more."""
    (here.results / "results.json").write_text("{}")
    folder = here.checkpoints / str(SAVED["name"])
    folder.mkdir()
    (folder / "state.pt").write_bytes(b"state")
    (folder / "MANIFEST.json").write_text(json.dumps({"step": 300}))
    here.attempt(plan.token).mkdir(parents=True)
    registry.write_json(here.plan(plan.token), plan.to_json())
    interrupted_write(here, plan.token, Interrupted(outcome=Outcome.SUCCEEDED, checkpoints=[SAVED]))
    entry = registry.Entry(job_id=plan.job_id, token=plan.token, job_dir=str(here.root), pid=os.getpid(), created_s=1.0)
    registry.add(entry)
    return entry


def exited(here, plan) -> Event:
    wait_for(here.exit_file(plan.token).exists)
    return Event.from_json(here.exit_file(plan.token).read_text())


def test_it_goes_on_with_that_once_and_the_attempt_ends_as_its_ranks_did(left, plan, here, store):
    assert [entry.job_id for entry in agent.sweep()] == [plan.job_id]
    alive = agent.sweep()
    assert len(alive) == 1 and alive[0].process() is not None, "one process alone does it"
    assert exited(here, plan).data["outcome"] == "succeeded"
    assert (store.results / "results.json").exists()
    assert (store.checkpoints / str(SAVED["name"]) / "state.pt").read_bytes() == b"state"
    wait_for(lambda: agent.sweep() == [])


def test_a_node_that_stops_leaves_it_for_later(left, plan, here):
    assert agent.stop_all() == 0
    assert not here.exit_file(plan.token).exists()
    assert [entry.job_id for entry in registry.entries()] == [plan.job_id]


def test_one_that_is_stopped_again_goes_on_again(left, plan, here, store, monkeypatch):
    with monkeypatch.context() as away:
        away.setenv("DLH_URL", "http://127.0.0.1:9")
        running = agent.sweep()[0]
        returning = here.returning_file(plan.token)
        before = returning.stat().st_mtime_ns
        wait_for(lambda: returning.stat().st_mtime_ns > before)  # it has said that devices are not needed
        process = running.process()
        assert process is not None
        process.send_signal(signal.SIGTERM)
        wait_for(lambda: running.process() is None)
        assert not here.exit_file(plan.token).exists()
    agent.sweep()
    assert exited(here, plan).data["outcome"] == "succeeded"
    assert (store.results / "results.json").exists()


def test_who_cancels_the_job_ends_it(left, plan, here, monkeypatch):
    monkeypatch.setenv("DLH_URL", "http://127.0.0.1:9")
    assert agent.attempt_stop(plan.job_id, plan.token, "cancel")
    assert exited(here, plan).data["outcome"] in {"succeeded", "lost"}, "control knows that it was cancelled"


def test_one_of_an_older_attempt_than_the_node_has_seen_is_over(left, plan, here):
    with registry.locked(here):
        registry.fence_raise(here, plan.token + 1)
    assert agent.sweep() == []
    assert registry.entries() == []
    assert exited(here, plan).data["outcome"] == "lost"


def test_an_attempt_that_was_given_up_meanwhile_returns_nothing(left, plan, here, store):
    JobAttempt.objects.filter(job_id=plan.job_id).update(ended_at="2026-01-01T00:00:00Z", outcome="lost")
    agent.sweep()
    assert exited(here, plan).data["outcome"] == "lost"
    assert not store.results.exists()

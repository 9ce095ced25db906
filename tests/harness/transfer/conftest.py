"""A run on a node that does not see the store, and both of its ways there: real portal, no broker."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.test import Client

from harness.pool.joining import digest_of
from harness.pool.models import Node
from tests.harness.jobs.helpers import place_now
from tests.harness.transfer.asking import caller
from tests.silent_broker import SilentBroker
from worker.plan import RunPaths, RunPlan
from worker.transfer.cache import Cache
from worker.transfer.depot import Depot
from worker.transfer.portal import Portal
from worker.transfer.returning import Returner

SECRET = "dlhn_node-1"


@pytest.fixture
def quiet_broker(monkeypatch) -> None:
    """No live word is needed."""
    from harness import broker

    monkeypatch.setattr(broker, "client", SilentBroker)


@pytest.fixture
def node(transactional_db, tasks_sent, quiet_broker, node_make) -> Node:
    """A node that may sign in."""
    made = node_make("node-1")
    Node.objects.filter(pk=made.pk).update(secret_digest=digest_of(SECRET))
    return made


@pytest.fixture
def stranger(node) -> Client:
    """A node that has no part in the run."""
    return caller(Node.objects.create(name="node-9"))


@pytest.fixture
def attempt(node, job):
    return place_now(job)


@pytest.fixture
def plan(attempt):
    return RunPlan.from_dict(attempt.plan)


@pytest.fixture
def depot(live_server, tmp_path, monkeypatch):
    monkeypatch.setenv("DLH_NODE_NAME", "node-1")
    return Depot(Cache(tmp_path / "cache", 1 << 30), Portal(live_server.url, SECRET))


@pytest.fixture
def here(depot, plan) -> RunPaths:
    """The run's folders on the node."""
    paths = depot.run_paths(plan)
    for folder in (paths.checkpoints, paths.results):
        folder.mkdir(parents=True)
    return paths


@pytest.fixture
def returner(depot, plan, here):
    made = Returner(depot.portal, plan, here, [0], first=True)
    yield made
    made.finish_begin(0.0)
    depot.portal.drop()


@pytest.fixture
def store(plan) -> RunPaths:
    return settings.STORE.job(plan.job_id)

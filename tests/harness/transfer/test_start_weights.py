"""Weights that a run starts from come to a node without the store as data do: by hash, ahead or before the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.factory_weights import safetensors, weights_make
from worker.plan import START_WEIGHTS
from worker.transfer.ahead import Ahead
from worker.transfer.folders import Folders
from worker.transfer.tree import ahead_folder

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tasks_sent", "quiet_broker")]


@pytest.fixture
def started(plan, job, people):
    """The plan of a run that starts from weights."""
    mine = weights_make(people.owner, job.project)
    type(job).objects.filter(pk=job.pk).update(weights=mine)
    job.refresh_from_db()
    return replace(plan, weights_dir=job.weights_dir)


def test_a_node_fetches_them_once_and_other_runs_find_them_there(depot, started, here):
    brought = depot.run_bring(started, here, first=True, stopped=lambda: False)
    brought.release()
    assert (brought.weights.path / START_WEIGHTS).read_bytes() == safetensors()
    again = depot.run_bring(started, here, first=True, stopped=lambda: False)
    again.release()
    assert again.weights.path == brought.weights.path and again.fetched_bytes == 0


def test_they_may_come_ahead_of_the_run(depot, started, here):
    Folders(depot.cache.root).want([ahead_folder(started.weights_dir)])
    assert Ahead(depot).step()
    (digest,) = depot.cache.contents()
    brought = depot.run_bring(started, here, first=True, stopped=lambda: False)
    brought.release()
    assert brought.weights.path.name == digest


def test_a_request_for_a_short_run_has_them_as_well(depot, started):
    request = {"request_id": "r1", "job_dir": started.job_dir, "weights_dir": started.weights_dir}
    with depot.request_here(request) as here:
        assert (Path(here["weights_dir"]) / START_WEIGHTS).read_bytes() == safetensors()
        assert here["weights_dir"] != started.weights_dir


def test_a_damaged_copy_is_fetched_anew(depot, started, here):
    brought = depot.run_bring(started, here, first=True, stopped=lambda: False)
    (brought.weights.path / START_WEIGHTS).chmod(0o644)
    (brought.weights.path / START_WEIGHTS).write_bytes(bytes(len(safetensors())))
    brought.release()
    again = depot.run_bring(started, here, first=True, stopped=lambda: False)
    again.release()
    assert again.damaged == [START_WEIGHTS]
    assert (again.weights.path / START_WEIGHTS).read_bytes() == safetensors()

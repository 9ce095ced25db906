"""What came ahead of a run, from the real portal."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness.jobs.models import Checkpoint, Job
from harness.pool.models import Node, PoolSetting
from tests.harness.transfer.asking import API, code
from worker.plan import RunPaths
from worker.transfer.ahead import Ahead
from worker.transfer.folders import Folders
from worker.transfer.tree import dataset_folder, job_folder

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tasks_sent", "quiet_broker")]
NAME = "step-00000010"


@pytest.fixture
def folders(depot):
    yield Folders(depot.cache.root)
    depot.portal.drop()


@pytest.fixture
def saved(store, plan) -> str:
    """A checkpoint of the job, which waits; its folder."""
    place = store.checkpoints / NAME
    place.mkdir(parents=True)
    (place / "state.pt").write_bytes(os.urandom(1000))
    (place / "MANIFEST.json").write_text(json.dumps({"files": {}}))
    Checkpoint.objects.create(job_id=plan.job_id, name=NAME, step=10, epoch=1.0, token=1)
    Job.objects.filter(pk=plan.job_id).update(state="queued")
    return str(RunPaths(Path(job_folder(plan.job_dir))).checkpoints / NAME)


def whole(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def bring(depot, plan, here):
    """The run starts."""
    Job.objects.filter(pk=plan.job_id).update(state="placed")
    brought = depot.run_bring(plan, here, first=True, stopped=lambda: False)
    brought.release()
    return brought


def test_a_run_for_which_all_came_ahead_fetches_nothing(depot, plan, here, store, folders, saved):
    folders.want([dataset_folder(plan.dataset_dir), f"{job_folder(plan.job_dir)}/program", saved])
    work = Ahead(depot)
    assert [work.step() for _ in range(4)] == [True, True, True, False]
    assert not (here.checkpoints / NAME).exists()
    brought = bring(depot, plan, here)
    assert brought.fetched_bytes == 0 and brought.dataset is not None
    assert brought.cached_bytes > brought.dataset.tree.bytes + 1000
    assert whole(here.checkpoints / NAME) == whole(store.checkpoints / NAME)
    assert whole(here.program) == whole(store.program)
    assert len(depot.cache.contents()) == 2, "the checkpoint is the job's own now"
    assert not work.step(), "and is not fetched again"


def test_a_checkpoint_that_became_damaged_in_the_cache_comes_anew(depot, plan, here, store, folders, saved):
    folders.want([saved])
    assert Ahead(depot).step()
    (digest,) = depot.cache.contents()
    (depot.cache.path(f"contents/{digest}") / "state.pt").write_bytes(bytes(1000))
    bring(depot, plan, here)
    assert whole(here.checkpoints / NAME) == whole(store.checkpoints / NAME)
    assert [row["digest"] for row in depot.cache.damages()] == [digest]


def test_nodes_may_read_a_checkpoint_ahead_only_while_its_job_waits(stranger, plan, store, saved):
    Node.objects.update(state="up", sandbox_level=3)

    def asked(folder=saved):
        return stranger.get(f"{API}/trees", query_params={"folder": folder})

    assert {row["name"] for row in asked().json()["files"]} == {"state.pt", "MANIFEST.json"}
    got = stranger.get(f"{API}/files", query_params={"folder": saved, "name": "MANIFEST.json"})
    assert got.status_code == 200
    assert code(asked(saved.replace(NAME, "step-00000099"))) == "not_found"
    (store.checkpoints / NAME / "MANIFEST.json").unlink()
    assert code(asked()) == "not_found", "half a checkpoint is none"
    (store.checkpoints / NAME / "MANIFEST.json").write_text("{}")
    for state in ("draft", "running", "succeeded"):
        Job.objects.filter(pk=plan.job_id).update(state=state)
        assert code(asked()) == "not_found"
    Job.objects.filter(pk=plan.job_id).update(state="queued")
    Checkpoint.objects.update(removed_at="2026-01-01T00:00Z")
    assert code(asked()) == "not_found"


def test_nodes_that_could_not_run_the_job_may_not_read_its_checkpoints(stranger, saved):
    def asked():
        return stranger.get(f"{API}/trees", query_params={"folder": saved})

    PoolSetting.objects.update_or_create(pk=1, defaults={"minimum_sandbox_level_generated": 2})
    for state, level, may in (("up", 2, True), ("up", 1, False), ("drain", 2, False), ("down", 2, False)):
        Node.objects.filter(name="node-9").update(state=state, sandbox_level=level)
        answer = asked()
        assert answer.status_code == 200 if may else code(answer) == "not_found", (state, level)

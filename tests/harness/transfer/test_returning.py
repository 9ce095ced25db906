"""A node's two ways, against a running portal: what a run needs comes, what it makes returns, from the newest alone."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from django.conf import settings

from harness.jobs.models import Checkpoint, Job, JobAttempt
from tests.harness.transfer.conftest import SECRET
from tests.waiting import wait_for
from worker.events import Event, EventKind
from worker.plan import RunPaths, RunPlan
from worker.transfer import tree as tree_module
from worker.transfer.portal import Portal, PortalRefused
from worker.transfer.returning import Returner


def bring(depot, plan, here):
    brought = depot.run_bring(plan, here, first=True, stopped=lambda: False)
    brought.release()
    return brought


def checkpoint(here, name, body=b"state"):
    folder = here.checkpoints / name
    folder.mkdir()
    (folder / "state.pt").write_bytes(body)
    (folder / "MANIFEST.json").write_text(json.dumps({"files": {"state.pt": {"bytes": len(body)}}}))


def told(plan, name, **data):
    return Event(
        kind=EventKind.CHECKPOINT, job_id=plan.job_id, token=1, rank=0, seq=1, time_s=1.0, data={"name": name, **data}
    )


def whole(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_program_and_its_data_come_once_and_the_second_run_fetches_nothing(depot, plan, here, job):
    first = bring(depot, plan, here)
    packed = settings.STORE.dataset(job.dataset.sha256).packed
    assert first.fetched_bytes > (packed / "table.parquet").stat().st_size and first.cached_bytes == 0
    assert (first.dataset.path / "table.parquet").read_bytes() == (packed / "table.parquet").read_bytes()
    assert whole(here.program) == whole(settings.STORE.job(plan.job_id).program)
    again = bring(depot, plan, here)
    assert (again.fetched_bytes, again.cached_bytes) == (0, first.fetched_bytes)
    assert "nothing to fetch" in again.told("node-1")["message"]


def test_an_edited_program_comes_anew(depot, plan, here, store):
    bring(depot, plan, here)
    (store.program / "train.py").write_text("print(1)\n")
    bring(depot, plan, here)
    assert (here.program / "train.py").read_text() == "print(1)\n"


def test_checkpoints_here_become_those_of_the_store(depot, plan, here, store):
    store.checkpoints.mkdir(parents=True)
    for name in ("step-00000010", "step-00000020"):
        checkpoint(store, name, os.urandom(100))
        Checkpoint.objects.create(job_id=plan.job_id, name=name, step=int(name[5:]), epoch=1.0, token=1)
    checkpoint(here, "step-00000010", b"another")
    checkpoint(here, "step-00000099")
    bring(depot, plan, here)
    assert {path.name for path in here.checkpoints.iterdir()} == {"step-00000010", "step-00000020"}
    for name in ("step-00000010", "step-00000020"):
        assert whole(here.checkpoints / name) == whole(store.checkpoints / name)
    assert bring(depot, plan, here).fetched_bytes == 0


def test_a_checkpoint_is_told_once_the_store_has_it(returner, plan, here, store):
    (here.results / "preprocess.json").write_text("{}")
    checkpoint(here, "step-00000010")
    other = Event(kind=EventKind.METRIC, job_id="x", token=1, rank=0, seq=0, time_s=1.0)
    assert returner.hold([told(plan, "step-00000010", step=10, removed=[]), other]) == [other]
    assert returner.kept.empty()
    returner.start()
    wait_for(lambda: not returner.kept.empty())
    assert returner.kept.get() == {"name": "step-00000010", "step": 10, "removed": []}
    assert whole(store.checkpoints / "step-00000010") == whole(here.checkpoints / "step-00000010")
    assert (store.results / "preprocess.json").read_text() == "{}"


def test_one_that_was_removed_before_its_turn_is_passed_over_and_its_removals_are_not_forgotten(
    returner, plan, here, store
):
    store.checkpoints.mkdir(parents=True)
    checkpoint(store, "step-00000001")
    checkpoint(here, "step-00000003")
    names = [told(plan, "step-00000002", removed=["step-00000001"]), told(plan, "step-00000003", removed=["../x"])]
    returner.hold([*names, told(plan, "../../etc")])
    returner.start()
    returner.finish_begin(60.0)
    assert returner.finished(60.0) and returner.problem() == ""
    assert returner.kept.get()["removed"] == ["step-00000001"] and returner.kept.empty()
    assert {path.name for path in store.checkpoints.iterdir()} == {"step-00000003"}


def test_logs_and_results_arrive_by_the_end_and_links_stay_behind(returner, plan, here, store, tmp_path):
    (tmp_path / "secret").write_text("secret")
    log = here.rank_log(1, 0)
    log.parent.mkdir(parents=True)
    log.write_text("one\n")
    returner.start()
    wait_for(lambda: store.rank_log(1, 0).exists())
    with log.open("a") as stream:
        stream.write("two\n" * 1000)
    (here.results / "results.json").write_text("{}")
    (here.results / "linked.json").symlink_to(tmp_path / "secret")
    (here.results / "folder").mkdir()
    returner.finish_begin(60.0)
    assert returner.finished(60.0) and returner.problem() == ""
    assert store.rank_log(1, 0).read_text() == log.read_text()
    assert whole(store.results) == {"results.json": b"{}"}


def test_a_newer_attempt_ends_it_and_nothing_of_it_is_kept(returner, depot, plan, here, store):
    Job.objects.filter(pk=plan.job_id).update(token=2)
    checkpoint(here, "step-00000010")
    returner.hold([told(plan, "step-00000010")])
    returner.start()
    wait_for(returner.refused.is_set)
    assert returner.kept.empty() and "no longer the newest" in returner.problem()
    assert not store.checkpoints.exists()
    with pytest.raises(PortalRefused, match="no longer the newest"):
        bring(depot, plan, here)


def test_a_checkpoint_that_the_portal_did_not_take_is_sent_again(returner, plan, here, store, monkeypatch):
    checkpoint(here, "step-00000010")
    answers, ask = [PortalRefused(409, "conflict", "not now", None)], returner._portal.json

    def json_once(method, path, body=None, **query):
        if path.endswith("/commit") and answers:
            raise answers.pop()
        return ask(method, path, body, **query)

    monkeypatch.setattr(returner._portal, "json", json_once)
    returner.hold([told(plan, "step-00000010")])
    returner.start()
    wait_for(lambda: not returner.kept.empty())
    assert (store.checkpoints / "step-00000010").is_dir() and not answers


def test_a_checkpoint_on_a_bad_block_keeps_neither_later_ones_nor_the_results_back(
    returner, plan, here, store, monkeypatch
):
    """A run of days would be lost for it, and be made again."""
    for name in ("step-00000010", "step-00000020"):
        checkpoint(here, name)
    (here.results / "results.json").write_text("{}")
    real = tree_module.open_below

    def opened(root, relative):
        if "step-00000010" in relative.parts and relative.name == "state.pt":
            raise OSError(errno.EIO, "Input/output error", str(relative))
        return real(root, relative)

    monkeypatch.setattr(tree_module, "open_below", opened)
    returner.hold([told(plan, name, removed=[]) for name in ("step-00000010", "step-00000020")])
    returner.start()
    wait_for(lambda: not returner.kept.empty())
    returner.finish_begin(60.0)
    assert returner.finished(60.0) and returner.problem() == ""
    assert returner.kept.get()["name"] == "step-00000020" and returner.kept.empty()
    assert {path.name for path in store.checkpoints.iterdir()} == {"step-00000020"}
    assert (store.results / "results.json").exists()
    (note,) = [returner.notes.get() for _ in range(returner.notes.qsize())]
    assert note["message"].startswith("The node cannot read its checkpoint step-00000010: Input/output error.")


def test_a_disk_that_is_away_is_no_bad_block(returner, plan, here, monkeypatch):
    checkpoint(here, "step-00000010")

    def opened(root, relative):
        raise OSError(errno.ESTALE, "Stale file handle", str(relative))

    monkeypatch.setattr(tree_module, "open_below", opened)
    returner.hold([told(plan, "step-00000010", removed=[])])
    returner.start()
    returner.finish_begin(60.0)
    assert returner.finished(60.0) and "Stale file handle" in returner.problem()


def test_an_unforeseen_error_at_the_end_is_no_success(returner, here, monkeypatch):
    monkeypatch.setattr("worker.transfer.returning.tree_read", lambda *_: 1 / 0)
    (here.results / "results.json").write_text("{}")
    returner.start()
    returner.finish_begin(60.0)
    assert returner.finished(60.0) and "division" in returner.problem()


def test_more_results_than_one_message_names_arrive_too(returner, here, store, monkeypatch):
    monkeypatch.setattr("worker.transfer.returning.FILES_MAX", 2)
    for number in range(5):
        (here.results / f"picture-{number}.png").write_bytes(b"x")
    returner.start()
    returner.finish_begin(60.0)
    assert returner.finished(60.0) and returner.problem() == ""
    assert len(whole(store.results)) == 5


def test_a_portal_that_is_away_at_the_end_is_said(plan, here):
    lonely = Returner(Portal("http://127.0.0.1:9", SECRET), plan, here, [0], first=True)
    (here.results / "results.json").write_text("{}")
    lonely.start()
    lonely.finish_begin(0.5)
    assert lonely.finished(60.0) and "Connection refused" in lonely.problem()


def test_a_short_run_has_its_folders_here_and_leaves_none(depot, plan, here, store):
    asked = {"request_id": "probe-1", "job_dir": plan.job_dir, "dataset_dir": plan.dataset_dir, "steps": 3}
    with depot.request_here(asked) as request:
        folder = RunPaths(Path(request["job_dir"]))
        assert whole(folder.program) == whole(store.program)
        assert "table.parquet" in whole(Path(request["dataset_dir"]))
        assert (request["steps"], request["request_id"]) == (3, "probe-1")
    assert not folder.root.exists()
    with pytest.raises(ValueError, match="not the id"), depot.request_here({**asked, "request_id": "../x"}):
        raise AssertionError


def spread(plan, **changes):
    """The attempt's plan with a first node before this one."""
    body = plan.to_dict()
    ranks = [{**body["ranks"][0], "node": "node-0"}, {**body["ranks"][0], "rank": 1}]
    attempt = JobAttempt.objects.get(job_id=plan.job_id)
    attempt.plan = {**body, "ranks": ranks, **changes}
    attempt.save()
    return RunPlan.from_dict(attempt.plan)


def other_node(depot, plan):
    """(what returns, the folders here) of a node that is not the first."""
    here = RunPaths(depot.run_paths(plan).root, "node-1")
    here.checkpoints.mkdir(parents=True)
    here.results.mkdir()
    return Returner(depot.portal, plan, here, [1], first=False), here


def test_what_another_node_than_the_first_saves_waits_in_a_folder_of_its_own_and_is_told_by_nobody(depot, plan, store):
    returner, here = other_node(depot, spread(plan, least=1))
    (here.results / "results.json").write_text("{}")
    checkpoint(here, "step-00000042")
    returner.start()
    returner.offer([{"name": "step-00000042"}])
    returner.finish_begin(60.0)
    assert returner.finished(60.0) and returner.problem() == ""
    assert whole(RunPaths(store.root, "node-1").checkpoints / "step-00000042") == whole(
        here.checkpoints / "step-00000042"
    )
    assert returner.kept.empty()
    assert not store.checkpoints.exists() and not store.results.exists()


def test_a_run_that_may_lose_no_rank_takes_nothing_from_another_node_than_the_first(depot, plan, store):
    returner, here = other_node(depot, spread(plan, least=0))
    checkpoint(here, "step-00000042")
    returner.start()
    returner.offer([{"name": "step-00000042"}])
    returner.finish_begin(60.0)
    assert returner.finished(60.0)
    assert "Only the first node" in returner.problem()
    assert not RunPaths(store.root, "node-1").checkpoints.exists()

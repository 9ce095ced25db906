"""An elastic run over several nodes loses the first: what another saved becomes the newest checkpoint, or nothing."""

from __future__ import annotations

import errno
import json
import os
from datetime import datetime, timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from harness.errors import Conflict
from harness.jobs.control.effects import events_apply
from harness.jobs.control.reconcile import reconcile
from harness.jobs.control.rescue import WAIT
from harness.jobs.models import Allocation, Checkpoint, Job, JobAttempt, JobEvent
from harness.jobs.services import job_pause
from harness.pool.models import Node
from harness.pool.services import pool_setting_update
from harness.transfer.returns import sender_get
from tests.harness.jobs.helpers import event, place_now, tick_later
from worker.elastic.patience import RESCUE_MOST_S
from worker.fence import desk_name
from worker.plan import RunPaths

pytestmark = pytest.mark.django_db
KILLED = {"code": "node_lost", "message": "The process that watched over the run was ended from outside."}
SUFFERED = {"code": "rank_killed", "message": "lost those on the others", "suffered": True}
ADDRESSES = {"node-1": "10.0.0.1", "node-2": "10.0.0.2", "node-3": "10.0.0.3"}
OLD, NEW = "step-00000005", "step-00000042"


@pytest.fixture(autouse=True)
def real_broker(broker, tasks_sent):
    """Leases live in the broker; tasks are only noted."""


@pytest.fixture
def attempt(people, node_make, job_make):
    """Three ranks on as many nodes, of which one will do, training; the first has saved step 5."""
    pool_setting_update(user=people.admin, span_nodes=True)
    for name, address in ADDRESSES.items():
        node_make(name, cpus=1, address=address)
    placed = place_now(job_make(resources={"device": "cpu", "count": 3, "least": 1}, mode="sync"))
    begun = [
        event(placed.job, "started", 0, rank=-1 - index, sandbox_level=2, node=node)
        for index, node in enumerate(ADDRESSES)
    ]
    saved = event(placed.job, "checkpoint", 1, name=OLD, step=5, epoch=1.0, metric=0.5, bytes=5, best=True, rank=0)
    events_apply(placed.job_id, [*begun, event(placed.job, "running", 0, rank=0), saved])
    write(placed, "", OLD, metric=0.5)
    return fresh(placed)


def fresh(attempt):
    return JobAttempt.objects.select_related("job").get(pk=attempt.pk)


def folder(attempt, node):
    return RunPaths(settings.STORE.job(attempt.job_id).root, node).checkpoints


def write(attempt, node, name, *, metric=None, body=b"state", **changes):
    place = folder(attempt, node) / name
    place.mkdir(parents=True)
    (place / "state.pt").write_bytes(body)
    files = {"state.pt": {"bytes": len(body), "sha256": "0" * 64}}
    manifest = {"format": 1, "step": int(name[5:]), "epoch": 2.5, "metric": metric, "files": files, **changes}
    (place / "MANIFEST.json").write_text(json.dumps(manifest))


def ended(attempt, node, outcome="lost", failure=SUFFERED, rescue=()):
    data = {"outcome": outcome, "failure": failure, "node": node, "rescue": list(rescue)}
    events_apply(attempt.job_id, [event(attempt.job, "exited", 9, rank=-1 - list(ADDRESSES).index(node), **data)])
    return fresh(attempt)


def rescued(attempt, node="node-2", name=NEW, **more):
    write(attempt, node, name, **more)
    return ended(attempt, node, rescue=[name])


def stops(tasks_sent):
    return [(args[2], queue_name) for name, args, queue_name in tasks_sent if name == "node.stop"]


def names(attempt):
    return list(Checkpoint.objects.filter(job_id=attempt.job_id, removed_at=None).order_by("step").values_list("name"))


def next_plan(attempt):
    """Of the attempt that follows."""
    assert tick_later() == 1
    return JobAttempt.objects.get(job_id=attempt.job_id, number=2).plan


def test_the_others_are_asked_to_save_and_what_one_saved_is_where_it_goes_on(
    attempt, tasks_sent, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        attempt = ended(attempt, "node-1", failure=KILLED)
    assert stops(tasks_sent) == [("rescue", "node.node-2"), ("rescue", "node.node-3")]
    assert attempt.ended_at is None and Allocation.objects.count() == 3
    attempt = rescued(attempt)
    attempt = ended(attempt, "node-3")
    assert (attempt.outcome, attempt.job.state, attempt.failure["message"]) == ("lost", "queued", KILLED["message"])
    assert not Allocation.objects.exists()
    row = Checkpoint.objects.get(name=NEW)
    assert (row.step, row.epoch, row.metric, row.size_bytes, row.token, row.best) == (42, 2.5, None, 5, 1, False)
    assert (folder(attempt, "") / NEW / "state.pt").read_bytes() == b"state"
    assert not (folder(attempt, "node-2") / NEW).exists()
    told = JobEvent.objects.filter(kind="note").latest("pk")
    assert told.message == "The node node-1 was lost; node-2 has saved the run as it was after step 42."
    assert next_plan(attempt)["resume_from"] == NEW


def test_of_several_the_farthest_is_taken_and_with_it_a_better_epoch(attempt):
    attempt = ended(attempt, "node-1", failure=KILLED)
    write(attempt, "node-3", "step-00000040", metric=0.9)
    write(attempt, "node-3", NEW)
    attempt = ended(attempt, "node-3", rescue=[NEW, "step-00000040"])
    attempt = rescued(attempt, name="step-00000041")
    assert names(attempt) == [(OLD,), ("step-00000040",), (NEW,)]
    assert Checkpoint.objects.get(best=True).name == "step-00000040"
    assert next_plan(attempt)["resume_from"] == NEW


def test_who_noticed_before_control_did_is_heard_when_control_has(attempt, node_make):
    attempt = rescued(attempt)
    attempt = ended(attempt, "node-3")
    assert attempt.ended_at is None and names(attempt) == [(OLD,)]
    then = timezone.now() - timedelta(seconds=40)
    JobAttempt.objects.update(sent_at=then, seen_at=then)
    Node.objects.filter(name="node-1").update(heartbeat_at=timezone.now() - timedelta(seconds=60))
    reconcile()
    attempt = fresh(attempt)
    assert (attempt.outcome, attempt.job.state) == ("lost", "queued")
    assert names(attempt) == [(OLD,), (NEW,)]


def test_nothing_is_taken_while_the_first_node_is_there(attempt):
    attempt = rescued(attempt)
    attempt = ended(attempt, "node-3")
    attempt = ended(attempt, "node-1", "succeeded", None)
    assert (attempt.job.state, names(attempt)) == ("succeeded", [(OLD,)])
    assert (folder(attempt, "node-2") / NEW).exists()


def test_what_is_not_farther_than_the_newest_checkpoint_is_not_taken(attempt):
    later = "step-00000050"
    write(attempt, "", later)
    saved = event(attempt.job, "checkpoint", 2, name=later, step=50, epoch=3.0, metric=None, bytes=5, rank=0)
    events_apply(attempt.job_id, [saved])
    attempt = rescued(attempt)
    attempt = ended(attempt, "node-3")
    attempt = ended(attempt, "node-1", failure=KILLED)
    assert names(attempt) == [(OLD,), (later,)]
    assert next_plan(attempt)["resume_from"] == later


@pytest.mark.parametrize(
    "changes",
    [{"files": {"state.pt": {"bytes": 6}}}, {"step": 43}, {"files": 7}, {"files": {"../../x": {"bytes": 5}}}],
    ids=["cut short", "of another step", "no files", "elsewhere"],
)
def test_what_is_not_whole_or_not_what_it_says_is_not_taken(attempt, changes):
    attempt = ended(attempt, "node-1", failure=KILLED)
    attempt = rescued(attempt, **changes)
    attempt = ended(attempt, "node-3", rescue=["../../../etc", "step-00000099", 7, {}])
    assert (attempt.job.state, names(attempt)) == ("queued", [(OLD,)])
    assert next_plan(attempt)["resume_from"] == OLD


def test_a_link_is_not_followed(attempt, tmp_path):
    attempt = ended(attempt, "node-1", failure=KILLED)
    write(attempt, "node-3", NEW)
    folder(attempt, "node-2").mkdir(parents=True)
    (folder(attempt, "node-2") / NEW).symlink_to(folder(attempt, "node-3") / NEW)
    attempt = ended(attempt, "node-2", rescue=[NEW])
    attempt = ended(attempt, "node-3")
    assert names(attempt) == [(OLD,)]


def test_a_disk_that_refuses_what_was_saved_leaves_in_place_what_lies_there(attempt, monkeypatch):
    attempt = ended(attempt, "node-1", failure=KILLED)
    write(attempt, "", NEW, files={"state.pt": {"bytes": 6}})
    rename = os.rename

    def refused(source, target, **more):
        if source == target == NEW:
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target, **more)

    monkeypatch.setattr(os, "rename", refused)
    attempt = rescued(attempt)
    attempt = ended(attempt, "node-3")
    assert (attempt.job.state, names(attempt)) == ("queued", [(OLD,)])
    assert {path.name for path in folder(attempt, "").glob("*step-*")} == {OLD, NEW}


def test_a_node_that_does_not_save_in_time_is_ended_and_all_is_as_without(
    attempt, node_make, tasks_sent, django_capture_on_commit_callbacks
):
    attempt = ended(attempt, "node-1", failure=KILLED)
    for name in ("node-2", "node-3"):
        node_make(name, cpus=1, address=ADDRESSES[name], running=[{"job_id": attempt.job_id, "token": 1}])
    with django_capture_on_commit_callbacks(execute=True):
        reconcile()
    assert set(stops(tasks_sent)) == {("rescue", "node.node-2"), ("rescue", "node.node-3")}
    tasks_sent.clear()
    lost_at = datetime.fromisoformat(attempt.width["first_lost_at"]) - WAIT
    JobAttempt.objects.update(width={**attempt.width, "first_lost_at": lost_at.isoformat()})
    with django_capture_on_commit_callbacks(execute=True):
        reconcile()
    assert set(stops(tasks_sent)) == {("end", "node.node-2"), ("end", "node.node-3")}
    for name in ("node-2", "node-3"):
        attempt = ended(attempt, name, "cancelled", None)
    assert (attempt.job.state, next_plan(attempt)["resume_from"]) == ("queued", OLD)


def test_a_node_is_waited_for_longer_than_it_takes_to_save_at_most():
    assert WAIT.total_seconds() > RESCUE_MOST_S


def test_nothing_that_a_first_node_says_counts_once_it_is_called_lost(attempt, node_make, tasks_sent):
    attempt = ended(attempt, "node-1", failure=KILLED)
    late = event(attempt.job, "checkpoint", 7, name="step-00000060", step=60, epoch=3.0, metric=None, bytes=5, rank=0)
    assert events_apply(attempt.job_id, [late]) == 0
    with pytest.raises(Conflict, match="continues without this node"):
        sender_get(Node.objects.get(name="node-1"), attempt.job_id, 1)
    assert sender_get(Node.objects.get(name="node-2"), attempt.job_id, 1).staged("checkpoint", NEW)
    for name, address in ADDRESSES.items():
        node_make(name, cpus=1, address=address, running=[{"job_id": attempt.job_id, "token": 1}])
    reconcile()
    assert ("cancel", "node.node-1") in stops(tasks_sent)
    attempt = rescued(attempt)
    attempt = ended(attempt, "node-3")
    assert events_apply(attempt.job_id, [late]) == 0
    assert names(attempt) == [(OLD,), (NEW,)]


def test_a_first_node_that_sees_the_store_and_comes_back_can_write_there_no_more(attempt):
    from worker.runtime.checkpoint import CheckpointStore, Superseded

    attempt = ended(attempt, "node-1", failure=KILLED)
    attempt = rescued(attempt)
    ended(attempt, "node-3")
    stale, new = (CheckpointStore(folder(attempt, ""), keep=1, larger_is_better=True, token=token) for token in (1, 2))
    with pytest.raises(Superseded):
        stale.save({}, step=60, epoch=3.0, metric=None)
    assert stale.purge() == []
    new.claim()
    assert [path.name for path in folder(attempt, "").glob(".*")] == [desk_name(2)]


def test_a_run_that_was_to_pause_is_paused_with_what_was_saved(attempt, people):
    job_pause(user=people.owner, job=attempt.job)
    attempt = rescued(fresh(attempt))
    attempt = ended(attempt, "node-3")
    then = timezone.now() - timedelta(seconds=40)
    JobAttempt.objects.update(sent_at=then, seen_at=then)
    Node.objects.filter(name="node-1").update(heartbeat_at=timezone.now() - timedelta(seconds=60))
    reconcile()
    attempt = fresh(attempt)
    assert (attempt.job.state, names(attempt)) == ("paused", [(OLD,), (NEW,)])


def test_a_cancelled_run_saves_nothing(attempt, people, tasks_sent, django_capture_on_commit_callbacks):
    Job.objects.update(state="cancelling")
    with django_capture_on_commit_callbacks(execute=True):
        attempt = ended(attempt, "node-1", failure=KILLED)
    assert stops(tasks_sent) == [("cancel", "node.node-2"), ("cancel", "node.node-3")]


def test_history_that_a_person_left_does_not_stand_in_the_way(attempt):
    later = "step-00000090"
    write(attempt, "", later)
    Checkpoint.objects.create(job=attempt.job, name=later, step=90, epoch=9.0)
    Job.objects.update(resume_from=OLD)
    JobAttempt.objects.update(plan={**attempt.plan, "resume_from": OLD})
    attempt = ended(fresh(attempt), "node-1", failure=KILLED)
    attempt = rescued(attempt)
    attempt = ended(attempt, "node-3")
    assert names(attempt) == [(OLD,), (NEW,)]
    assert next_plan(attempt)["resume_from"] == NEW

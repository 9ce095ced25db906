"""What a run made and its node could not return keeps its place in the node's cache while anybody may want it."""

from __future__ import annotations

import errno
import os
import time

import pytest
from django.utils import timezone

from harness.jobs.models import Checkpoint, Job, JobAttempt
from tests.harness.transfer.test_away_at_the_end import Ending, Switch
from worker.attempt import Attempt
from worker.events import Outcome
from worker.states import JobState
from worker.transfer.cache import UNRETURNED, CacheFull
from worker.transfer.carrier import Carrier
from worker.transfer.owed import owed, owed_begin, owed_settled
from worker.transfer.report import cache_report
from worker.transfer.unreturned import MANIFEST

SIZE = 3 << 20


@pytest.fixture
def carrier(depot, plan, here):
    made = Carrier(Attempt(plan, here, "node-1"), depot)
    made.bring(lambda: False)
    (here.checkpoints / "step-00000300").mkdir()
    (here.checkpoints / "step-00000300" / MANIFEST).write_bytes(bytes(SIZE))
    made.rescue(["step-00000300"])
    yield made
    made.close()


@pytest.fixture
def left(carrier, depot, here, monkeypatch) -> str:
    """The run was told to leave while the portal was away: its checkpoint lies on the node alone. Name of its entry."""
    Switch(depot.portal, monkeypatch)
    ending = Ending(carrier, Outcome.LOST)
    ending.hurry.set()
    ending.ended()
    carrier.close()
    monkeypatch.undo()
    monkeypatch.setenv("DLH_NODE_NAME", "node-1")
    return f"jobs/{here.root.name}"


def make_room(depot) -> None:
    """As for a run that needs all of the cache but its least content, long after everything here was used."""
    long_ago_s = time.time() - 3600
    for lock in (depot.cache.root / "locks").iterdir():
        os.utime(lock, (long_ago_s, long_ago_s))
    depot._room_make(depot.cache.limit_bytes - SIZE, lambda: False)


def test_what_could_not_be_returned_is_not_removed_to_make_room_and_the_run_is_told_so(left, depot, here):
    with pytest.raises(CacheFull, match=r"3 MiB of it are kept for 1 job, since they could not be returned"):
        make_room(depot)
    assert (here.checkpoints / "step-00000300").exists()


def test_a_power_cut_leaves_no_mark_without_its_attempt(tmp_path, monkeypatch):
    """Nobody could ask the portal about it, so it would keep its room for good."""

    def cut(descriptor):
        raise OSError(errno.EIO, "the power is gone")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", cut)
        with pytest.raises(OSError, match="the power is gone"):
            owed_begin(tmp_path, 7)
    assert not (tmp_path / UNRETURNED).exists()
    owed_begin(tmp_path, 7)
    assert (tmp_path / UNRETURNED).read_text() == "7"


def test_what_the_store_has_makes_room(carrier, depot, here):
    assert Ending(carrier, Outcome.LOST).ended()[0] is Outcome.LOST
    carrier.close()
    make_room(depot)
    assert not here.root.exists()


def test_it_makes_room_once_the_job_has_got_on_elsewhere(left, depot, plan, here):
    JobAttempt.objects.create(job_id=plan.job_id, number=2, plan={**plan.to_dict(), "token": 2})
    assert not owed_settled(depot.cache, depot.portal), "the next attempt has saved nothing yet"
    Checkpoint.objects.create(job_id=plan.job_id, name="step-00000400", step=400, epoch=2.0, token=2)
    make_room(depot)
    assert not here.root.exists()


@pytest.mark.parametrize(
    ("state", "stays"), [(JobState.FAILED, True), (JobState.CANCELLED, True), (JobState.SUCCEEDED, False)]
)
def test_it_stays_where_a_person_may_resume_the_job(left, depot, plan, state, stays):
    JobAttempt.objects.filter(job_id=plan.job_id).update(ended_at=timezone.now())
    Job.objects.filter(pk=plan.job_id).update(state=state)
    assert owed_settled(depot.cache, depot.portal) is not stays
    assert bool(owed(depot.cache)) is stays


def test_a_job_that_is_not_there_any_more_is_awaited_by_nobody(left, depot, plan):
    Job.objects.filter(pk=plan.job_id).delete()
    assert owed_settled(depot.cache, depot.portal)
    assert depot.cache.unreturned() == []


def test_while_the_portal_is_away_all_of_it_stays(left, depot):
    depot.portal._url = "http://127.0.0.1:9"
    assert not owed_settled(depot.cache, depot.portal)
    assert depot.cache.unreturned() == [left]


def test_the_node_reports_how_much_that_is(left, depot, monkeypatch):
    monkeypatch.setenv("DLH_CACHE", str(depot.cache.root))
    told = cache_report()["cache"]
    assert told["unreturned"] == 1 and SIZE <= told["unreturned_bytes"] < SIZE + (1 << 20)


def test_a_run_that_goes_on_owes_nothing_yet(carrier, depot):
    assert depot.cache.unreturned() and owed(depot.cache) == {}

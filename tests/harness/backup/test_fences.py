"""Nodes that ran on after a backup was made find the restored installation by themselves, with newer copies of jobs."""

import pytest

from harness.backup.loading import NUMBERS_BEGIN_S, attempts_lose, fences_raise, nodes_go
from harness.errors import HarnessError
from harness.jobs.control.effects import events_apply
from harness.jobs.control.reconcile import reconcile
from harness.jobs.control.tick import tick
from harness.jobs.models import JobAttempt
from harness.pool.models import Node, PoolSetting
from harness.transfer.returns import sender_get
from tests.harness.jobs.helpers import event, queue, run_now, stops, tick_later
from worker.states import JobState

pytestmark = pytest.mark.django_db

NOW_S = NUMBERS_BEGIN_S + 400_000 * 60


def restored(now_s=NOW_S):
    """What a restore does once the rows are there; how many runs were under way."""
    lost = attempts_lose()
    fences_raise(now_s)
    return lost


def newest(job):
    job.refresh_from_db()
    return JobAttempt.objects.get(job=job, number=job.token)


def test_a_copy_that_was_begun_after_the_backup_can_say_and_return_nothing(job, node_make, tasks_sent):
    node = node_make()
    run_now(job)
    assert restored() == 1
    assert tick_later() == 1
    attempt = newest(job)
    assert job.state == JobState.PLACED
    after = attempt.number - 1
    for token in range(2, 20):  # whatever it was given by the installation that is no more
        events_apply(job.pk, [event(job, "exited", 1 << 40, token=token, outcome="succeeded")])
        with pytest.raises(HarnessError):
            sender_get(node, job.pk, token)
    assert newest(job).ended_at is None and after >= 400_000


def test_a_copy_on_another_node_is_told_to_stop(job, node_make, tasks_sent):
    node_make("node-1")
    run_now(job)
    restored()
    tick_later()
    tasks_sent.clear()
    node_make("node-2", running=[{"job_id": job.pk, "token": 2}])
    reconcile()
    assert ([job.pk, 2, "cancel"], "node.node-2") in stops(tasks_sent)


@pytest.mark.parametrize("state", ["queued", "draft"])
def test_a_job_that_had_not_begun_begins_above_whatever_it_got_later(job, node_make, tasks_sent, state):
    node_make()
    if state == "queued":
        queue(job)
    assert restored() == 0
    job.refresh_from_db()
    assert job.state == state
    if state == "draft":
        queue(job)
    assert tick() == 1
    assert newest(job).number > 400_000


def test_a_backup_that_is_restored_twice_gives_no_number_twice(job, node_make, tasks_sent):
    node_make()
    run_now(job)
    restored()
    tick_later()
    first = newest(job).number
    job.attempts.exclude(number=1).delete()
    type(job).objects.filter(pk=job.pk).update(token=1, state=JobState.QUEUED)  # as the backup has it
    restored(NOW_S + 3600)
    tick_later()
    assert newest(job).number > first


def test_numbers_rise_where_the_clock_is_years_behind(job, node_make, tasks_sent):
    node_make()
    run_now(job)
    restored(now_s=0.0)
    tick_later()
    assert newest(job).number > 1000


def test_nothing_starts_on_a_node_until_it_is_heard_of_again(job, node_make, tasks_sent):
    node_make()
    node_make("node-2", cpus=0)
    queue(job)
    nodes_go()
    assert set(Node.objects.values_list("state", flat=True)) == {"down"}
    assert tick() == 0
    node_make()
    assert tick() == 1
    assert dict(Node.objects.values_list("name", "state")) == {"node-1": "up", "node-2": "down"}


def test_a_run_that_was_lost_as_often_as_it_may_be_waits_again_and_does_not_fail(job, node_make, tasks_sent):
    node_make()
    run_now(job)
    PoolSetting.objects.update_or_create(pk=1, defaults={"max_restarts": 0})
    restored()
    job.refresh_from_db()
    assert (job.state, job.restarts) == (JobState.QUEUED, 0)

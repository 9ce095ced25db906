"""A job that starts again after a fault does so on nodes that had no part in it, where it can."""

from __future__ import annotations

import pytest

from harness.jobs.control import losses
from harness.jobs.control.effects import events_apply
from harness.jobs.control.losses import losses_read
from harness.jobs.models import Checkpoint, Job, JobAttempt, JobEvent
from harness.jobs.node_ends import end_read
from harness.pool.models import Node, NodeState
from harness.pool.services import pool_setting_update
from tests.harness.jobs.helpers import SUFFERED, event, place_now, tick_later

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]
NO_START = {"code": "start_failed", "message": "The sandbox ended before its ranks."}
STOPPED = {"code": "node_stopped", "message": "Its node was shut down."}
GANG = {"resources": {"device": "cpu", "count": 2}, "mode": "sync"}


@pytest.fixture(params=["fifo", "deadline_energy"], autouse=True)
def policy(request, people):
    """Each of them keeps to it in its own way."""
    pool_setting_update(user=people.admin, policy=request.param)


def lost(attempt, failures):
    """The attempt after each of these nodes told its failure; none: it was only stopped."""
    nodes = list(dict.fromkeys(rank["node"] for rank in attempt.plan["ranks"]))
    told = [
        event(
            attempt.job, "exited", 9, rank=-1 - at, token=attempt.number, node=node, failure=failures[node],
            outcome="lost" if failures[node] else "cancelled",
        )
        for at, node in enumerate(nodes)
    ]  # fmt: skip
    events_apply(attempt.job_id, told)
    assert Job.objects.get(pk=attempt.job_id).state == "queued"


def again(job):
    """(nodes of the next attempt, what its history says of them, the attempt)."""
    assert tick_later() == 1
    attempt = JobAttempt.objects.select_related("job").get(job=job, ended_at=None)
    words = JobEvent.objects.get(job=job, new_state="placed", token=attempt.number).message
    return {rank["node"] for rank in attempt.plan["ranks"]}, words, attempt


def lost_on_the_first_of_two(job, node_make):
    """Of these nodes it starts on the first, as a single core fills that."""
    node_make("node-1", cpus=1)
    node_make("node-2", cpus=2)
    lost(place_now(job), {"node-1": NO_START})


def test_a_node_that_fails_every_start_does_not_get_the_job_again_while_another_is_free(job, node_make):
    node_make("node-1", cpus=1)
    node_make("node-2", cpus=1)
    first = place_now(job)
    lost(first, {"node-1": NO_START})
    nodes, words, _ = again(job)
    assert (nodes, words) == ({"node-2"}, "Placed on node-2, not on node-1, where it was lost")


def test_of_a_node_that_was_shut_down_it_is_said_so_and_nothing_of_a_loss(job, node_make):
    node_make("node-1", cpus=1)
    node_make("node-2", cpus=1)
    lost(place_now(job), {"node-1": STOPPED})
    nodes, words, second = again(job)
    assert (nodes, words) == ({"node-2"}, "Placed on node-2, not on node-1, which was shut down")
    lost(second, {"node-2": STOPPED})
    Node.objects.filter(name="node-1").update(state=NodeState.DOWN)
    assert again(job)[:2] == ({"node-2"}, "Placed on node-2")


def test_a_node_of_a_fault_and_one_that_was_shut_down_are_told_apart(job, node_make):
    lost_on_the_first_of_two(job, node_make)
    _, _, second = again(job)
    lost(second, {"node-2": STOPPED})
    node_make("node-3", cpus=4)
    nodes, words, _ = again(job)
    assert nodes == {"node-3"}
    assert words == "Placed on node-3, not on node-1, where it was lost, not on node-2, which was shut down"


def test_with_no_other_node_it_starts_where_it_failed(job, node_make):
    node_make("node-1", cpus=1)
    lost(place_now(job), {"node-1": NO_START})
    nodes, words, _ = again(job)
    assert (nodes, words) == ({"node-1"}, "Placed on node-1, where it was lost: no other node was free for it")


def test_it_goes_where_it_failed_least(job, node_make):
    lost_on_the_first_of_two(job, node_make)
    _, _, second = again(job)
    lost(second, {"node-2": NO_START})
    node_make("node-3", cpus=4)
    nodes, words, _ = again(job)
    assert (nodes, words) == ({"node-3"}, "Placed on node-3, not on node-1 and node-2, where it was lost")


def test_a_checkpoint_made_elsewhere_is_progress_and_the_losses_before_it_are_forgotten(job, node_make):
    lost_on_the_first_of_two(job, node_make)
    _, _, second = again(job)
    Checkpoint.objects.create(job=job, name="step-1", step=1, epoch=1.0, token=second.number)
    lost(second, {"node-2": NO_START})
    nodes, words, _ = again(job)
    assert (nodes, words) == ({"node-1"}, "Placed on node-1, not on node-2, where it was lost")


def test_who_resumes_a_job_has_it_start_anywhere(job, node_make):
    lost_on_the_first_of_two(job, node_make)
    Job.objects.update(restarts=0)
    nodes, words, _ = again(job)
    assert (nodes, words) == ({"node-1"}, "Placed on node-1")


def test_what_was_lost_before_a_person_resumed_it_counts_no_more_when_it_is_lost_again(job, node_make):
    lost_on_the_first_of_two(job, node_make)
    Job.objects.update(restarts=0)
    Node.objects.filter(name="node-1").update(state=NodeState.DOWN)
    nodes, _, second = again(job)
    lost(second, {"node-2": NO_START})
    Node.objects.filter(name="node-1").update(state=NodeState.UP)
    node_make("node-3", cpus=4)
    assert nodes == {"node-2"} and again(job)[0] == {"node-1"}


@pytest.fixture
def pair(people, job_make, node_make):
    """An attempt over two nodes of one core each; a third such node comes afterwards."""
    pool_setting_update(user=people.admin, span_nodes=True)
    for number in (1, 2):
        node_make(f"node-{number}", cpus=1, address=f"10.0.0.{number}")
    attempt = place_now(job_make(**GANG))
    node_make("node-3", cpus=1, address="10.0.0.3")
    return attempt


def test_a_third_node_takes_over_from_a_pair_that_lost_each_other(pair):
    lost(pair, {"node-1": SUFFERED, "node-2": SUFFERED})
    nodes, words, second = again(pair.job)
    assert nodes == {"node-1", "node-3"} and words.endswith("not on node-2, where it was lost")
    lost(second, dict.fromkeys(nodes, SUFFERED))
    assert again(pair.job)[0] == {"node-2", "node-3"}


def test_only_what_counts_is_read_of_the_ends_of_its_nodes(pair, monkeypatch, django_assert_num_queries):
    """At each decision: a job that was lost often has many of them."""
    lost(pair, {"node-1": NO_START, "node-2": SUFFERED})
    job, read = Job.objects.get(pk=pair.job_id), []
    monkeypatch.setattr(losses, "end_read", lambda body: read.append(body["node"]) or end_read(body))
    with django_assert_num_queries(2):
        assert losses_read([job]) == {job.pk: {"node-1": 1}}
    assert sorted(read) == ["node-1", "node-2"]
    _, _, second = again(job)
    Checkpoint.objects.create(job=job, name="step-1", step=1, epoch=1.0, token=second.number)
    lost(second, dict.fromkeys(second.run_plan.nodes, SUFFERED))
    job.refresh_from_db()
    read.clear()
    with django_assert_num_queries(2):
        assert losses_read([job]) == {job.pk: dict.fromkeys(second.run_plan.nodes, 1)}
    assert sorted(read) == sorted(second.run_plan.nodes), "none of the attempt before the checkpoint"


def test_of_attempts_on_one_node_no_end_is_read(job, node_make, django_assert_num_queries):
    lost_on_the_first_of_two(job, node_make)
    job.refresh_from_db()
    with django_assert_num_queries(1):
        assert losses_read([job]) == {job.pk: {"node-1": 1}}


@pytest.mark.parametrize("other", [SUFFERED, None])
def test_of_a_gang_only_the_node_to_blame_is_avoided(pair, other):
    lost(pair, {"node-1": NO_START, "node-2": other})
    assert again(pair.job)[0] == {"node-2", "node-3"}

"""A gang that no node holds alone is placed over several, or waits with the reason."""

from __future__ import annotations

import pytest

from harness.errors import Invalid
from harness.jobs.control.tick import start_send, tick
from harness.jobs.control.views import facts_read
from harness.jobs.models import Job
from harness.pool.services import pool_setting_update
from tests.harness.jobs.helpers import place_now, queue
from tests.harness.jobs.two_nodes import attempt, real_broker, wide

pytestmark = pytest.mark.django_db
__all__ = ["attempt", "real_broker", "wide"]


def test_a_gang_waits_with_the_reason_while_its_nodes_have_different_releases(wide, job_make, node_make):
    def release(node, name):
        node_make(node, cpus=1, address=f"10.0.0.{node[-1]}", description={"release": name})

    job = queue(job_make(resources={"device": "cpu", "count": 2}, mode="sync"))
    release("node-1", "0.3.0")
    release("node-2", "0.2.0")
    assert tick() == 0
    job.refresh_from_db()
    assert job.state == "queued" and "need one release" in job.waiting_text
    assert "node-2 with 0.2.0, node-1 with 0.3.0" in job.waiting_text
    release("node-2", "")
    tick()
    job.refresh_from_db()
    assert "node-2 with an older one" in job.waiting_text
    release("node-2", "0.3.0")
    assert tick() == 1


@pytest.mark.parametrize("change", [{"description": {"release": "9.9.9"}}, {"address": ""}])
def test_a_gang_that_runs_goes_on_while_none_could_begin(attempt, job_make, node_make, change):
    Job.objects.filter(pk=attempt.job_id).update(state="running")
    node_make("node-2", **{"cpus": 1, "address": "10.0.0.2", **change})
    single = queue(job_make(name="single", resources={"device": "cpu", "count": 1}))
    facts = facts_read()
    (gang,) = [view for view in facts.views if view.running]
    assert gang.can_pause and not facts.pool.spans_nodes
    assert tick() == 0
    attempt.job.refresh_from_db()
    single.refresh_from_db()
    assert (attempt.job.state, single.state) == ("running", "queued")


def test_a_job_for_one_node_starts_whatever_the_others_have(wide, job_make, node_make):
    node_make("node-1", cpus=1, address="10.0.0.1", description={"release": "0.3.0"})
    place_now(job_make(resources={"device": "cpu", "count": 1}))


def test_a_gang_that_no_node_holds_is_spread_over_two_with_their_addresses(attempt, tasks_sent):
    plan = attempt.plan
    assert [(rank["node"], rank["local_rank"]) for rank in plan["ranks"]] == [("node-1", 0), ("node-2", 0)]
    assert plan["addresses"] == {"node-1": "10.0.0.1", "node-2": "10.0.0.2"}
    start_send(attempt)
    queues = [name for task, _, name in tasks_sent if task == "node.start"]
    assert queues == ["node.node-1", "node.node-2"]


def test_one_node_is_preferred_where_it_has_room(wide, node_make, job_make):
    node_make("node-3", cpus=2, address="10.0.0.3")
    plan = place_now(job_make(resources={"device": "cpu", "count": 2}, mode="sync")).plan
    assert {rank["node"] for rank in plan["ranks"]} == {"node-3"} and plan["addresses"] == {}


@pytest.mark.parametrize("spec", [{"mode": "single"}, {"mode": "replicated"}])
def test_one_process_cannot_span_nodes(wide, job_make, spec):
    with pytest.raises(Invalid, match="largest node has 1"):
        job_make(resources={"device": "cpu", "count": 2}, **spec)


def test_more_than_all_nodes_together_have_is_refused_and_one_process_waits_for_a_node_of_its_own(wide, job_make):
    with pytest.raises(Invalid, match="all nodes that take work together have 2"):
        job_make(resources={"device": "cpu", "count": 3}, mode="sync")
    job = queue(job_make(resources={"device": "cpu", "count": 2}, mode="sync"))
    job.resolved["spec"]["mode"] = "single"
    job.save(update_fields=["resolved"])
    assert tick() == 0


def test_nodes_whose_addresses_mean_themselves_only_hold_no_gang_together(wide, node_make, job_make):
    job = job_make(resources={"device": "cpu", "count": 2}, mode="sync")
    node_make("node-2", cpus=1, address="127.0.0.1")
    queue(job)
    assert tick() == 0
    node_make("node-2", cpus=1, address="10.0.0.2")
    assert tick() == 1


def test_without_the_setting_nothing_spans(people, wide, job_make):
    job = job_make(resources={"device": "cpu", "count": 2}, mode="sync")
    pool_setting_update(user=people.admin, span_nodes=False)
    queue(job)
    assert tick() == 0

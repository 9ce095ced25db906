"""Nodes of different releases are told apart in few words, and nobody counts on several of them together."""

from __future__ import annotations

import pytest

from harness.estimates.groups import groups_read
from harness.jobs.control.views import facts_read
from harness.pool.gangs import releases_problem
from harness.pool.hardware import hardware
from harness.pool.models import Node
from harness.pool.services import pool_setting_update
from scheduler.place import place
from scheduler.types import JobView, Option
from worker.facts import release
from worker.heartbeat import report

pytestmark = pytest.mark.django_db


def test_a_node_tells_its_release():
    assert report()["description"]["release"] == release()


def test_only_nodes_that_are_up_count_and_few_are_named(node_make):
    for number in range(1, 6):
        node_make(f"node-{number}", description={"release": "0.3.0"})
    assert releases_problem() == ""
    node_make("old", description={"release": "0.2.0"})
    assert "old with 0.2.0, node-1, node-2, node-3 and 2 more with 0.3.0" in releases_problem()
    Node.objects.filter(name="old").update(state="down")
    assert releases_problem() == ""


@pytest.mark.parametrize("second", ["0.3.0", "0.2.0"])
def test_forms_offers_and_the_scheduler_agree_on_whether_a_job_can_use_several_nodes(people, node_make, second):
    pool_setting_update(user=people.admin, span_nodes=True)
    node_make("node-1", address="10.0.0.1", description={"release": "0.3.0"})
    node_make("node-2", address="10.0.0.2", description={"release": second})
    can = second == "0.3.0"
    assert facts_read().pool.spans_nodes is can
    assert {group.spans_nodes for group in groups_read(people.project)} == {can}
    assert hardware().most_cpu_cores == (4 if can else 0)
    assert hardware().apart == ("" if can else releases_problem())


def test_whoever_asks_for_more_than_one_node_has_is_told_which_setting_forbids_several(people, node_make):
    node_make("node-1", address="10.0.0.1")
    assert hardware().apart == facts_read().pool.apart == ""
    node_make("node-2", address="10.0.0.2")
    off = "The pool's setting “One job may use several nodes” is off."
    assert hardware().apart == facts_read().pool.apart == off and hardware().most_cpu_cores == 0
    assert (hardware().cpu_cores, hardware().all_cpu_cores, hardware().all_gpus) == (2, 4, 0)
    pool_setting_update(user=people.admin, span_nodes=True)
    assert hardware().apart == "" and hardware().most_cpu_cores == 4


def test_a_single_node_that_is_up_is_told_with_those_that_are_not(people, node_make):
    pool_setting_update(user=people.admin, span_nodes=True)
    node_make("node-1", address="10.0.0.1")
    assert facts_read().pool.apart == "Only one node takes work."
    node_make("node-2", address="10.0.0.2")
    Node.objects.filter(name="node-2").update(state="down")
    assert facts_read().pool.apart == "Only one node takes work; node-2 does not."


@pytest.mark.parametrize(
    ("nodes", "has"), [(2, "the only node that takes work has 2"), (3, "the nodes that take work have 4")]
)
def test_who_waits_for_more_than_the_nodes_that_are_up_have_is_told_which_is_down(people, node_make, nodes, has):
    pool_setting_update(user=people.admin, span_nodes=True)
    for number in range(1, nodes + 1):
        node_make(f"node-{number}", address=f"10.0.0.{number}")
    Node.objects.filter(name=f"node-{nodes}").update(state="down")
    wish = JobView(job_id="a", submitted_s=0.0, options=(Option(kind="cpu", count=2 * nodes),))
    told = place([wish], facts_read().pool, 0.0).waits["a"]
    assert told.text == f"It needs {2 * nodes} CPU cores; {has}. node-{nodes} is down."
    assert told.remedy == f"It starts when node-{nodes} is up; or clone it with fewer devices."

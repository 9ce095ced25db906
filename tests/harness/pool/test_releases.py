"""Nodes of different releases are told apart, in few words however many they are."""

from __future__ import annotations

import pytest

from harness.pool.models import Node
from harness.pool.releases import releases_problem
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

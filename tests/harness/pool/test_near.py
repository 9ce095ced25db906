"""Racks: admins name them, and runs on several nodes stay within one."""

from __future__ import annotations

import pytest

from harness.accounts.models import AuditEvent
from harness.errors import Forbidden, Invalid, NotFound
from harness.jobs.control.views import facts_read
from harness.pool import services
from harness.pool.models import Node
from scheduler.place import place
from tests.scheduler.pools import job, way

pytestmark = pytest.mark.django_db


def _nodes_of_four():
    decision = place([job("wide", way(4))], facts_read().pool, 0.0)
    return decision.placements[0].nodes


def test_the_scheduler_keeps_a_gang_within_a_rack_that_an_admin_named(people, node_make):
    racks = {"node-a": "left", "node-b": "right", "node-c": "left"}
    for number, name in enumerate(racks):
        node_make(name, cpus=2, level=2, address=f"10.0.0.{number + 1}")
    services.pool_setting_update(user=people.admin, span_nodes=True)
    assert _nodes_of_four() == ("node-a", "node-b"), "of racks that nobody named the first nodes"
    for name, rack in racks.items():
        services.node_near_set(user=people.admin, name=name, near=rack)
    assert _nodes_of_four() == ("node-a", "node-c")


def test_a_heartbeat_leaves_the_rack_as_it_is(people, node_make):
    node_make()
    services.node_near_set(user=people.admin, name="node-1", near=" rack 2 ")
    node_make()
    assert Node.objects.get().near == "rack 2"
    assert AuditEvent.objects.filter(action="node_near_set", target="node-1").exists()


def test_only_admins_name_racks_and_only_by_a_short_line(people, node_make):
    node_make()
    with pytest.raises(Forbidden):
        services.node_near_set(user=people.owner, name="node-1", near="rack 2")
    with pytest.raises(NotFound):
        services.node_near_set(user=people.admin, name="nowhere", near="rack 2")
    for wrong in ("r" * 61, "two\nlines", "a\x00b"):
        with pytest.raises(Invalid):
            services.node_near_set(user=people.admin, name="node-1", near=wrong)
    assert Node.objects.get().near == ""

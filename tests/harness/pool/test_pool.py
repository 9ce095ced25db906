from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.errors import Conflict, Forbidden, Invalid, NotFound
from harness.pool import removing, selectors, services
from harness.pool.hardware import hardware
from harness.pool.models import Device, Node
from harness.pool.reservations import reservation_hold
from tests.harness.jobs.helpers import place_now

pytestmark = pytest.mark.django_db


def test_a_node_joins_by_its_heartbeat_and_its_devices_follow(node_make):
    node_make(cpus=2, gpus=1)
    node_make(cpus=1, gpus=2)
    kinds = Device.objects.order_by("kind", "index").values_list("kind", "index")
    assert list(kinds) == [("cpu", 0), ("cuda", 0), ("cuda", 1)]
    assert Node.objects.get().state == "up"


def test_a_device_that_a_job_holds_is_not_taken_away(job, node_make):
    node_make(cpus=2)
    attempt = place_now(job)
    held = attempt.allocations.count()
    node_make(cpus=0)
    assert Device.objects.count() == held


@pytest.mark.parametrize("report", [{}, {"name": "Bad Name"}, {"name": "../x"}, {"name": "a\n"}])
def test_a_report_without_a_proper_name_is_dropped(report):
    assert services.node_report(report) is None
    assert not Node.objects.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"cpu_cores": "many"}, {"cpu_cores": 2**31}, {"memory_bytes": 10**400}, {"memory_bytes": -1},
        {"memory_bytes": float("nan")}, {"sandbox_level": None}, {"description": 3}, {"running": [{}]},
        {"running": ["x"]}, {"devices": [{"kind": "tpu", "index": 0}]}, {"devices": [{"kind": "cpu", "index": -1}]},
        {"devices": [{"kind": "cpu", "index": 0, "memory_bytes": float("inf")}]}, {"devices": 1},
    ],
)  # fmt: skip
def test_a_report_that_makes_no_sense_is_dropped_and_changes_nothing(node_make, wrong, caplog):
    before = node_make()
    assert node_make(**wrong) is None
    assert "dropped a report of the node node-1" in caplog.text
    node = Node.objects.get()
    assert (node.heartbeat_at, node.cpu_cores, node.devices.count()) == (before.heartbeat_at, 2, 2)


def test_a_node_without_heartbeat_is_down_and_comes_back(node_make):
    node_make()
    assert services.nodes_mark_down(timezone.now()) == []
    Node.objects.update(heartbeat_at=timezone.now() - timedelta(seconds=30))
    assert services.nodes_mark_down(timezone.now()) == ["node-1"]
    assert services.nodes_mark_down(timezone.now()) == []
    node_make()
    assert Node.objects.get().state == "up"


def test_a_drained_node_stays_drained_through_heartbeats(node_make, people):
    node_make()
    assert services.node_drain(user=people.admin, name="node-1").state == "drain"
    node_make()
    assert Node.objects.get().state == "drain"
    assert services.node_undrain(user=people.admin, name="node-1").state == "up"


def test_only_admins_change_the_pool(node_make, people):
    node_make()
    for change in (
        lambda: services.node_add(user=people.owner, name="node-2"),
        lambda: services.node_drain(user=people.owner, name="node-1"),
        lambda: services.node_undrain(user=people.owner, name="node-1"),
        lambda: removing.node_remove(user=people.owner, name="node-1"),
        lambda: services.pool_setting_update(user=people.owner, max_restarts=1),
    ):
        with pytest.raises(Forbidden):
            change()


def test_a_node_is_expected_by_name_and_removed_when_it_is_gone(people, node_make, job):
    services.node_add(user=people.admin, name="node-1")
    assert Node.objects.get().state == "down"
    with pytest.raises(Conflict):
        services.node_add(user=people.admin, name="node-1")
    with pytest.raises(Invalid):
        services.node_add(user=people.admin, name="no such/name")
    node_make()
    with pytest.raises(Conflict, match="agent"):
        removing.node_remove(user=people.admin, name="node-1")
    place_now(job)
    with pytest.raises(Conflict, match="Jobs run"):
        removing.node_remove(user=people.admin, name="node-1")
    job.allocations.all().delete()
    Node.objects.update(heartbeat_at=timezone.now() - timedelta(seconds=30))
    removing.node_remove(user=people.admin, name="node-1")
    with pytest.raises(NotFound):
        services.node_drain(user=people.admin, name="node-1")


@pytest.mark.parametrize(
    "change", [{"max_restarts": -1}, {"max_restarts": True}, {"backend": "mpi"}, {"nonsense": 1}, {"id": 7}]
)
def test_a_wrong_setting_is_refused(change, people):
    with pytest.raises(Invalid):
        services.pool_setting_update(user=people.admin, **change)


def test_settings_are_one_row(people):
    services.pool_setting_update(user=people.admin, max_restarts=5, backend="torch")
    setting = services.pool_setting_get()
    assert (setting.pk, setting.max_restarts, setting.backend) == (1, 5, "torch")


def test_the_overview_takes_the_same_queries_for_any_number_of_nodes(node_make, job, django_assert_num_queries):
    node_make()
    place_now(job)
    with django_assert_num_queries(6):
        one = selectors.pool_overview()
    for number in range(2, 6):
        node_make(f"node-{number}")
    with django_assert_num_queries(6):
        five = selectors.pool_overview()
    assert (len(one.nodes), len(five.nodes)) == (1, 5)
    assert five.busy == job.allocations.count() and five.free == 10 - five.busy
    assert five.nodes[0].devices[0].job_id == job.pk


def test_what_is_reserved_is_not_free(node_make):
    node_make(cpus=2)
    reservation_hold(target=Device.objects.get(index=0), ends_at=timezone.now() + timedelta(hours=1), purpose="Course")
    found = selectors.pool_overview()
    assert (found.free, found.busy, found.away) == (1, 0, 0)


def test_what_is_idle_on_a_draining_node_is_away(people, node_make):
    node_make(cpus=2)
    node_make("node-2", cpus=1)
    services.node_drain(user=people.admin, name="node-2")
    found = selectors.pool_overview()
    assert (found.free, found.away) == (2, 1)


def test_hardware_is_the_largest_gang_of_one_node(node_make):
    assert hardware().cpu_cores > 0
    node_make("node-1", cpus=2, gpus=1)
    node_make("node-2", cpus=6)
    found = hardware()
    assert (found.cpu_cores, found.gpus, found.gpu_memory_bytes) == (6, 1, 16 << 30)

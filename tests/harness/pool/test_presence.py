"""When nodes were there."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.pool.models import Device, Node, NodeAbsence
from harness.pool.presence import Presence, absences_forget
from harness.pool.services import node_leave, nodes_mark_down

pytestmark = pytest.mark.django_db


def test_a_node_is_away_from_its_last_heartbeat_until_the_next(node_make):
    node_make()
    last = timezone.now() - timedelta(minutes=5)
    Node.objects.update(heartbeat_at=last)
    nodes_mark_down(timezone.now())
    assert NodeAbsence.objects.get().since == last
    nodes_mark_down(timezone.now())
    node_make()
    absence = NodeAbsence.objects.get()
    assert absence.until is not None and absence.until > last
    node_make()
    assert NodeAbsence.objects.count() == 1


def test_a_node_that_leaves_in_peace_is_away_as_well(node_make):
    node_make()
    node_leave("node-1")
    assert NodeAbsence.objects.get().until is None


def test_a_node_that_was_never_heard_was_never_there(node_make):
    node_make()
    Node.objects.update(heartbeat_at=None)
    now = timezone.now()
    device = Device.objects.select_related("node").first()
    assert Presence(now - timedelta(hours=1), now).seconds(device).tolist() == [0.0]


def test_an_absence_that_began_in_the_future_of_a_clock_set_back_is_dropped(node_make):
    node_make()
    Node.objects.get().absences.create(since=timezone.now() + timedelta(hours=1))
    Node.objects.update(state="down")
    node_make()
    assert not NodeAbsence.objects.exists()


def test_what_no_page_shows_any_more_is_forgotten(node_make):
    node = node_make()
    long_ago = timezone.now() - timedelta(days=401)
    node.absences.create(since=long_ago - timedelta(hours=1), until=long_ago)
    node.absences.create(since=long_ago)
    assert absences_forget(timezone.now() - timedelta(days=400)) == 1
    assert NodeAbsence.objects.get().until is None


HOUR = timedelta(hours=1)


def hours_there(device: Device) -> float:
    """Of the last day."""
    now = timezone.now()
    return (
        float(Presence(now - 24 * HOUR, now).seconds(Device.objects.select_related("node").get(pk=device.pk))[0]) / 3600
    )


def test_a_node_that_was_only_named_was_not_there_before_it_joined(node_make):
    named = Node.objects.create(name="node-1")
    Node.objects.update(created_at=timezone.now() - 20 * HOUR)
    node_make("node-1", cpus=1)
    Node.objects.update(created_at=timezone.now() - 20 * HOUR)
    assert hours_there(named.devices.get()) == pytest.approx(0.0, abs=0.01)


def test_a_gpu_that_is_back_was_not_there_while_it_was_away(node_make):
    node = node_make(cpus=0, gpus={0: "GPU-a"})
    Node.objects.update(created_at=timezone.now() - 20 * HOUR)
    Device.objects.update(away_since=timezone.now() - 5 * HOUR)
    node_make(cpus=0, gpus={0: "GPU-a"})
    device = node.devices.get()
    assert device.away_since is None and hours_there(device) == pytest.approx(15.0, abs=0.01)


def test_a_gpu_that_was_put_in_later_was_not_there_before(node_make):
    node = node_make(cpus=1)
    Node.objects.update(created_at=timezone.now() - 20 * HOUR)
    node_make(cpus=1, gpus=1)
    assert hours_there(node.devices.get(kind="cpu")) == pytest.approx(20.0, abs=0.01)
    assert hours_there(node.devices.get(kind="cuda")) == pytest.approx(0.0, abs=0.01)


def test_what_node_and_device_were_away_together_counts_once(node_make):
    node = node_make(cpus=1)
    now = timezone.now()
    Node.objects.update(created_at=now - 20 * HOUR)
    node.absences.create(since=now - 10 * HOUR, until=now - 4 * HOUR)
    node.absences.create(device=node.devices.get(), since=now - 8 * HOUR, until=now - 3 * HOUR)
    assert hours_there(node.devices.get()) == pytest.approx(13.0, abs=0.01)


def test_of_each_stretch_it_is_told_how_long_a_device_was_there(node_make):
    node = node_make(cpus=1)
    now = timezone.now()
    Node.objects.update(created_at=now - 2.5 * HOUR)
    device = Device.objects.select_related("node").get(pk=node.devices.get().pk)
    there = Presence(now - 4 * HOUR, now, 4).seconds(device)
    assert there.tolist() == pytest.approx([0.0, 1800.0, 3600.0, 3600.0], abs=1.0)

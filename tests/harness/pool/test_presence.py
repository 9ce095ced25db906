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
    assert Presence(now - timedelta(hours=1), now).seconds(device, now - timedelta(hours=1), now) == 0.0


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

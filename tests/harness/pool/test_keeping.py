"""Reservations, quotas and settings of the scheduler: who may, what is refused, what is noted."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from harness.accounts.models import AuditEvent, Project
from harness.broker import POOL_STREAM
from harness.errors import Conflict, Forbidden, Invalid, NotFound
from harness.jobs.project_trash import project_delete
from harness.pool.models import Quota, Reservation
from harness.pool.power import device_power
from harness.pool.quotas import quota_remove, quota_set
from harness.pool.reservations import reservation_cancel, reservation_hold, reservation_list
from harness.pool.selectors import pool_overview
from harness.pool.services import node_drain, pool_setting_update
from harness.pool.turn import TurnLost, turn_hold, turn_take
from tests.factory_reservations import reservation_create

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]
HOUR = timedelta(hours=1)


def keep(people, **more):
    given = {"node": "node-1", "ends_at": timezone.now() + HOUR, "purpose": "course", **more}
    return reservation_create(user=people.admin, **given)


def test_a_reservation_is_listed_shown_and_audited(people, node_make):
    node_make(cpus=1, gpus=1)
    kept = keep(people, device="cuda:0")
    assert [row.pk for row in reservation_list()] == [kept.pk]
    shown = {device.kind: device.reserved for node in pool_overview().nodes for device in node.devices}
    assert shown == {"cpu": "", "cuda": "course"}
    reservation_cancel(user=people.admin, reservation_id=kept.pk)
    assert not reservation_list().exists()
    told = list(AuditEvent.objects.order_by("pk").values_list("action", flat=True))
    assert told == ["reservation_create", "reservation_cancel"]
    with pytest.raises(Conflict):
        reservation_cancel(user=people.admin, reservation_id=kept.pk)


def test_what_overlaps_is_refused_and_what_follows_is_not(people, node_make):
    node_make(cpus=2)
    first = keep(people, device="cpu:0")
    for more in ({"device": "cpu:0"}, {}):
        with pytest.raises(Conflict):
            keep(people, **more)
    keep(people, device="cpu:1")
    keep(people, device="cpu:0", starts_at=first.ends_at, ends_at=first.ends_at + HOUR)
    assert Reservation.objects.count() == 3


@pytest.mark.parametrize(
    ("open_ended", "said"),
    [
        (False, "Cancel that reservation, or take another time or device."),
        (True, "Stop the calibration, or take another time or device."),
    ],
)
def test_whoever_comes_second_is_told_what_gives_the_device_free(people, node_make, open_ended, said):
    node, until = node_make(cpus=1), timezone.now() + HOUR
    reservation_hold(target=node, ends_at=until, purpose="Calibration of node-1", open_ended=open_ended)
    with pytest.raises(Conflict) as refused:
        keep(people)
    assert refused.value.hint == said


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"ends_at": timezone.now() - HOUR}, "ends_at"),
        ({"starts_at": timezone.now() - HOUR}, "starts_at"),
        ({"starts_at": timezone.now() + 3 * HOUR, "ends_at": timezone.now() + 2 * HOUR}, "ends_at"),
        ({"ends_at": timezone.now() + timedelta(days=4000)}, "ends_at"),
        ({"ends_at": datetime(9999, 1, 2, tzinfo=UTC)}, "ends_at"),
        (
            {"starts_at": datetime(9999, 1, 1, tzinfo=UTC), "ends_at": datetime(9999, 1, 2, tzinfo=UTC)},
            "starts_at",
        ),
        ({"purpose": "  "}, "purpose"),
    ],
)
def test_a_reservation_that_makes_no_sense_is_refused(people, node_make, more, field):
    node_make()
    with pytest.raises(Invalid) as refused:
        keep(people, **more)
    assert refused.value.field == field


@pytest.mark.parametrize(
    "more",
    [
        {"node": "nowhere"},
        {"device": "cuda:0"},
        {"device": "gpu"},
        {"device": "cpu:-1"},
        {"device": "cpu:²"},
        {"device": "cpu:" + "9" * 5000},
    ],
)
def test_what_does_not_exist_cannot_be_reserved(people, node_make, more):
    node_make(cpus=1)
    with pytest.raises(NotFound):
        keep(people, **more)


def test_a_node_of_another_name_is_told_with_how_one_joins(people):
    with pytest.raises(NotFound, match="There is no node nobody") as refused:
        keep(people, node="nobody")
    assert refused.value.field == "node" and "dlh node join" in refused.value.hint
    with pytest.raises(NotFound, match="There is no node nobody") as refused:
        node_drain(user=people.admin, name="nobody")
    assert "dlh node join" in refused.value.hint


def test_only_admins_reserve_and_give_quotas(people, node_make):
    node_make()
    kept = keep(people)
    for change in (
        lambda: reservation_create(user=people.owner, node="node-1", ends_at=timezone.now() + HOUR, purpose="mine"),
        lambda: reservation_cancel(user=people.owner, reservation_id=kept.pk),
        lambda: quota_set(user=people.owner, project=people.project, device_kind="cpu", devices=1),
        lambda: quota_remove(user=people.owner, project=people.project, device_kind="cpu"),
        lambda: pool_setting_update(user=people.owner, policy="fifo"),
    ):
        with pytest.raises(Forbidden):
            change()


def test_nothing_is_kept_for_a_project_that_was_deleted_meanwhile(people, node_make):
    node_make()
    project_delete(user=people.admin, project=Project.objects.get(pk=people.project.pk), name="Birds")
    with pytest.raises(NotFound, match="has been deleted"):
        keep(people, project=people.project)
    assert not Reservation.objects.exists()


def test_another_number_leaves_it_as_it_is_whether_a_quota_lends(people):
    for given, lends in ({"devices": 2}, True), ({"devices": 2, "may_borrow": False}, False), ({"devices": 5}, False):
        quota_set(user=people.admin, project=people.project, device_kind="cpu", **given)
        assert Quota.objects.get().may_borrow is lends
    last = AuditEvent.objects.order_by("pk").last()
    assert last.data == {"device_kind": "cpu", "devices": 5, "may_borrow": False}


def test_a_quota_is_set_changed_and_removed(people):
    for devices in (2, 5):
        quota_set(user=people.admin, project=people.project, device_kind="cpu", devices=devices)
    assert Quota.objects.get().devices == 5
    quota_remove(user=people.admin, project=people.project, device_kind="cpu")
    assert not Quota.objects.exists()
    with pytest.raises(NotFound, match="no quota for devices of kind CPU core") as refused:
        quota_remove(user=people.admin, project=people.project, device_kind="cpu")
    assert "dlh pool quotas" in refused.value.hint
    for bad in ({"device_kind": "tpu", "devices": 1}, {"device_kind": "cpu", "devices": -1}):
        with pytest.raises(Invalid):
            quota_set(user=people.admin, project=people.project, **bad)
    assert AuditEvent.objects.filter(action__startswith="quota_").count() == 3


def test_whoever_watches_the_pool_is_not_told_whose_quota_it_is(people, broker, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        quota_set(user=people.admin, project=people.project, device_kind="cpu", devices=2)
        quota_remove(user=people.admin, project=people.project, device_kind="cpu")
    words = [json.loads(body["event"]) for _, body in broker.xrange(POOL_STREAM)]
    assert [(word["kind"], word["data"]) for word in words] == [("quota", {}), ("quota", {})]


def test_the_scheduler_s_settings_are_checked(people):
    table = {"cpu": {"idle_w": 1, "busy_w": 4.5}}
    setting = pool_setting_update(user=people.admin, policy="edf", co2_g_per_kwh=35.0, power_table=table)
    assert (setting.policy, setting.co2_g_per_kwh) == ("edf", 35.0)
    assert device_power("cpu", "any core", setting.power_table).busy_w == 4.5
    for bad in (
        {"policy": "luck"},
        {"co2_g_per_kwh": -1},
        {"co2_g_per_kwh": float("nan")},
        {"power_table": {"cpu": {"idle_w": 9, "busy_w": 4}}},
        {"power_table": {"cpu": {"idle_w": float("nan"), "busy_w": 4}}},
        {"power_table": {"cpu": {"idle_w": 1, "busy_w": 10**400}}},
        {"power_table": {"cpu": 4}},
        {"power_table": []},
    ):
        with pytest.raises(Invalid) as refused:
            pool_setting_update(user=people.admin, **bad)
        assert refused.value.field == next(iter(bad)) and refused.value.field in refused.value.message


@pytest.mark.parametrize("act", ["set", "remove"])
def test_a_quota_undoes_what_is_being_decided_without_it(act, people):
    quota_set(user=people.admin, project=people.project, device_kind="cpu", devices=2)
    mine = turn_take()
    if act == "set":
        quota_set(user=people.admin, project=people.project, device_kind="cpu", devices=1)
    else:
        quota_remove(user=people.admin, project=people.project, device_kind="cpu")
    with pytest.raises(TurnLost), transaction.atomic():
        turn_hold(mine)

from __future__ import annotations

import pytest
from django.core.management.color import no_style
from django.db import connection

from harness.notify.models import Delivery, StorageAlarm
from harness.storage.models import StorageQuota
from harness.storage.use import storage_of
from harness.storage.watch import storage_watch

pytestmark = pytest.mark.django_db


def quota(project, share):
    """A quota of which so much is used."""
    limit = int(storage_of(project).use.used_bytes / share)
    StorageQuota.objects.update_or_create(project=project, defaults={"limit_bytes": limit})


def looked():
    storage_watch()
    return sorted(Delivery.objects.values_list("user__username", flat=True))


def test_a_project_out_of_storage_is_told_once_until_it_had_room_again(dataset, people, told):
    told(people.owner)
    quota(people.project, 0.5)
    assert looked() == []
    quota(people.project, 0.96)
    assert looked() == looked() == ["owner"]
    body = Delivery.objects.get().body
    assert body["title"] == "Birds is out of storage" and body["url"].endswith("/projects/birds/storage/")
    quota(people.project, 0.92)  # hardly better: nothing new
    assert looked() == ["owner"] and StorageAlarm.objects.exists()
    quota(people.project, 0.8)
    assert looked() == ["owner"] and not StorageAlarm.objects.exists()
    quota(people.project, 1.2)
    assert looked() == ["owner", "owner"]


def test_it_is_told_again_where_a_restored_database_counts_from_the_beginning(dataset, people, told):
    told(people.owner)
    quota(people.project, 0.96)
    assert looked() == ["owner"]
    quota(people.project, 0.8)
    assert looked() == ["owner"]
    table = {"table": StorageAlarm._meta.db_table, "column": "id"}
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_by_name_sql(no_style(), [table]):
            cursor.execute(statement)
    quota(people.project, 0.96)
    assert looked() == ["owner", "owner"]


def test_a_project_whose_quota_was_taken_away_is_told_anew_when_it_has_one_again(dataset, people, told):
    told(people.owner)
    quota(people.project, 1.0)
    assert looked() == ["owner"]
    StorageQuota.objects.all().delete()
    assert looked() == ["owner"]
    quota(people.project, 1.0)
    assert looked() == ["owner", "owner"]


def test_whoever_adds_to_it_or_watches_it_is_told(dataset, people, told):
    told(people.mate)
    told(people.viewer)
    told(people.admin, projects=["birds"])
    told(people.outsider)
    told(people.owner, storage_full=False)
    quota(people.project, 1.0)
    assert looked() == ["admin", "mate"]


def test_without_a_quota_or_anybody_who_wants_to_know_nothing_is_looked_at(
    dataset, people, told, django_assert_num_queries
):
    StorageQuota.objects.create(project=people.project, limit_bytes=1)
    with django_assert_num_queries(2):
        storage_watch()
    told(people.owner)
    StorageQuota.objects.all().delete()
    assert looked() == []
    StorageQuota.objects.create(project=people.elsewhere, limit_bytes=0)
    assert looked() == []

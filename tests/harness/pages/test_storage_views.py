"""Disk by project on the pages: use beside quotas, what is large, what is deleted for good."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from harness.datasets.models import Dataset
from harness.jobs.control.sizing import sizes_refresh
from harness.jobs.models import Job
from harness.storage.models import StorageQuota
from harness.trash import PURGE_BEGUN


@pytest.fixture
def admin(world: SimpleNamespace) -> Client:
    from harness.accounts.models import User

    client = Client()
    client.force_login(User.objects.create_superuser("root", "root@example.org", "correct horse battery"))
    return client


def flat(answer: Any) -> str:
    return re.sub(r"\s+", " ", answer.content.decode())


def test_an_admin_sets_a_quota_and_removes_it(world: SimpleNamespace, admin: Client, owner: Client) -> None:
    sizes_refresh()
    answer = admin.post(reverse("storage_quota_save"), {"project": "orchard", "gib": "0.5"}, follow=True)
    assert "may take 512 MiB" in flat(answer) and "of 512 MiB" in flat(answer)
    assert StorageQuota.objects.get().limit_bytes == 2**29
    assert "of 512 MiB" in flat(owner.get(reverse("pool_storage")))
    admin.post(reverse("storage_quota_save"), {"project": "orchard", "gib": ""})
    assert StorageQuota.objects.get().limit_bytes is None
    assert "not a number of GiB" in flat(
        admin.post(reverse("storage_quota_save"), {"project": "orchard", "gib": "nan"}, follow=True)
    )
    admin.post(reverse("storage_quota_end", args=["orchard"]))
    assert not StorageQuota.objects.exists()


def test_a_quota_that_is_used_up_is_told_where_data_is_added(
    world: SimpleNamespace, admin: Client, owner: Client
) -> None:
    sizes_refresh()
    admin.post(reverse("storage_quota_save"), {"project": "orchard", "gib": "0"})
    for name, words in (("project_storage", "used up"), ("project_page", "more may be added")):
        assert words in flat(owner.get(reverse(name, args=["orchard"]))), name
    assert "of 0 B" in flat(owner.get(reverse("dataset_upload") + "?project=orchard"))


def test_what_is_large_goes_to_the_trash_and_from_there_for_good(world: SimpleNamespace, owner: Client) -> None:
    dataset = Dataset.objects.create(project=world.wine.project, owner=world.owner, name="spare", sha256="e" * 64)
    page = reverse("project_storage", args=["orchard"])
    trash = reverse("storage_act", args=["orchard", "dataset", dataset.pk, "trash"])
    forever = reverse("storage_act", args=["orchard", "dataset", dataset.pk, "forever"])
    assert trash in owner.get(page).content.decode()
    assert forever not in owner.get(page).content.decode()
    assert "counts until" in flat(owner.post(trash, follow=True))
    assert forever in owner.get(page).content.decode()
    assert forever in owner.get(reverse("trash")).content.decode()
    assert "Deleted for good" in flat(owner.post(forever, {"from": "trash"}, follow=True))
    assert not Dataset.objects.filter(pk=dataset.pk).exists()


def test_chosen_jobs_in_the_trash_are_deleted_for_good(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["failed"]
    owner.post(reverse("job_act", args=[job.pk, "delete"]))
    answer = owner.post(reverse("job_bulk"), {"do": "purge", "job": [job.pk]}, follow=True)
    assert "1 job deleted for good" in flat(answer)
    assert Job.objects.get(pk=job.pk).deleted_at == PURGE_BEGUN
    assert owner.get(reverse("job_page", args=[job.pk])).status_code == 404


def test_a_job_that_is_not_in_the_trash_stays_whoever_asks(world: SimpleNamespace, owner: Client) -> None:
    job = world.jobs["failed"]
    answer = owner.post(reverse("job_bulk"), {"do": "purge", "job": [job.pk]}, follow=True)
    assert "1 could not be deleted for good: This job is not in the trash." in flat(answer)
    assert Job.objects.get(pk=job.pk).deleted_at is None

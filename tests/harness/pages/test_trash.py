"""The trash shows all that is in it, page by page."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.datasets.models import Dataset
from harness.jobs.models import Job
from harness.pages.views.jobs import TRASH_PAGE_SIZE

pytestmark = pytest.mark.django_db


@pytest.fixture
def full(people: SimpleNamespace, job_make: Callable[..., Any]) -> list[str]:
    """Ids of three more jobs than a page holds, and as many datasets, all in the trash."""
    job, now = job_make(), timezone.now()
    whose = {"project": job.project, "owner": job.owner, "deleted_at": now}
    count = TRASH_PAGE_SIZE + 3
    Dataset.objects.bulk_create(Dataset(name=f"data {number}", source_name="a.csv", **whose) for number in range(count))
    made = Job.objects.bulk_create(Job(name=f"job {number}", dataset=job.dataset, **whose) for number in range(count))
    return [one.pk for one in made]


def shown(page: str) -> tuple[set[str], set[str]]:
    """Names of (jobs, datasets) that lie in it."""
    return set(re.findall(r">(job \d+)</a>", page)), set(re.findall(r">(data \d+)</a>", page))


def test_each_list_has_pages_of_its_own(full: list[str], people: SimpleNamespace, client: Client) -> None:
    client.force_login(people.owner)
    first, second = (client.get(f"/trash/?page={number}").content.decode() for number in (1, 2))
    jobs, datasets = shown(first)
    assert len(jobs) == len(datasets) == TRASH_PAGE_SIZE
    assert f"{TRASH_PAGE_SIZE + 3} in all" in first and "page 1 of 2" in first
    later, same = shown(second)
    assert len(later) == 3 and not later & jobs and same == datasets
    assert 'href="?page=2&amp;datasets=2"' in second
    assert len(shown(client.get("/trash/?datasets=2").content.decode())[1]) == 3
    assert shown(client.get("/trash/?page=9").content.decode())[0] == later


def test_who_restores_on_a_later_page_stays_there(full: list[str], people: SimpleNamespace, client: Client) -> None:
    client.force_login(people.owner)
    page = client.get("/trash/?page=2").content.decode()
    action = reverse("job_bulk") + "?page=2"
    assert f'action="{action}"' in page
    answer = client.post(action, {"do": "restore", "job": full[:1]})
    assert answer["Location"] == reverse("trash") + "?page=2"
    assert not Job.objects.exclude(deleted_at=None).filter(pk=full[0]).exists()


@pytest.mark.parametrize("do", ["restore", "purge"])
def test_who_chose_nothing_there_stays_there(full: list[str], people: SimpleNamespace, client: Client, do: str) -> None:
    client.force_login(people.owner)
    answer = client.post(reverse("job_bulk") + "?page=2", {"do": do})
    assert answer["Location"] == reverse("trash") + "?page=2"


def test_who_takes_a_deletion_back_returns_to_the_list_of_jobs(
    full: list[str], people: SimpleNamespace, client: Client
) -> None:
    client.force_login(people.owner)
    for chosen in (full[:1], []):
        answer = client.post(reverse("job_bulk"), {"do": "restore", "from": "undo", "job": chosen})
        assert answer["Location"] == reverse("job_list")

"""Forms that data comes by have the project chosen that one works in, and never one that others chose."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from harness.accounts.models import Membership, Project, Role, User
from harness.accounts.services import project_create
from harness.datasets.models import Dataset

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]


def added(user: User, name: str = "A trap") -> Project:
    project = Project.objects.create(name=name, slug=name.lower().replace(" ", "-"))
    Membership.objects.create(project=project, user=user, role=Role.ADMIN)
    return project


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def options(user: User, query: str = "") -> tuple[list[str], list[str]]:
    """Slugs of the select of the upload page, and those that are chosen in it."""
    page = client_of(user).get(reverse("dataset_upload") + query).content.decode()
    (select,) = re.findall(r"<select[^>]*data-option-project\s*>(.*?)</select>", page, re.S)
    found = re.findall(r'<option value="([^"]*)"\s*(selected)?', select)
    return [slug for slug, _ in found], [slug for slug, mark in found if mark]


def test_the_only_project_is_chosen(people: SimpleNamespace) -> None:
    assert options(people.owner) == (["birds"], ["birds"])


def test_nothing_is_chosen_for_whoever_only_was_added(people: SimpleNamespace) -> None:
    added(people.mate)
    assert options(people.mate) == (["", "a-trap", "birds"], [])
    assert options(people.mate, "?project=birds") == (["a-trap", "birds"], ["birds"])


def test_an_own_project_is_chosen_before_those_of_others(people: SimpleNamespace) -> None:
    own = project_create(user=people.mate, name="Zoo")
    added(people.mate)
    assert options(people.mate)[1] == [own.slug]


def test_the_project_of_the_newest_own_dataset_or_job_is_chosen(
    people: SimpleNamespace, dataset_make: Any, job_make: Any
) -> None:
    own = project_create(user=people.owner, name="Zoo")
    trap = added(people.owner)
    Membership.objects.create(project=trap, user=people.outsider, role=Role.ADMIN)
    dataset_make(people.owner, people.project)
    dataset_make(people.outsider, trap)  # somebody else's
    assert options(people.owner)[1] == ["birds"]
    dataset_make(people.owner, own)
    assert options(people.owner)[1] == ["zoo"]
    job = job_make()
    assert (job.owner, job.project) == (people.owner, people.project)
    assert options(people.owner)[1] == ["birds"]
    Membership.objects.filter(user=people.owner, project=people.project).update(role=Role.VIEWER)
    assert options(people.owner)[1] == ["zoo"]


def test_a_sample_goes_where_it_is_sent_or_has_a_project_chosen_first(people: SimpleNamespace) -> None:
    added(people.mate)
    client = client_of(people.mate)
    told: Any = client.post(reverse("dataset_sample"), {"name": "wine", "project": ""}, follow=True)
    assert told.request["PATH_INFO"] == reverse("dataset_upload")
    assert "a-trap, birds" in told.content.decode() and not Dataset.objects.exists()
    client.post(reverse("dataset_sample"), {"name": "wine", "project": "birds"})
    client.post(reverse("dataset_sample"), {"name": "wine"})
    assert [row.project.slug for row in Dataset.objects.all()] == ["birds", "birds"]


def test_a_web_address_without_a_project_is_refused_where_one_has_to_be_chosen(people: SimpleNamespace) -> None:
    added(people.mate)
    answer = client_of(people.mate).post(reverse("dataset_upload"), {"url": "https://data.example.org/a.csv"})
    text = answer.content.decode()
    assert answer.status_code == 422 and "a-trap, birds" in text and "https://data.example.org/a.csv" in text


def test_how_a_table_is_to_be_read_stays_chosen_where_its_address_is_refused(people: SimpleNamespace) -> None:
    added(people.mate)
    client, sent = client_of(people.mate), {"url": "https://data.example.org/a.csv", "delimiter": "\t"}
    shown = [
        client.post(reverse("dataset_upload"), {**sent, "encoding": "cp1252"}),
        client.get(reverse("dataset_upload")),
    ]
    refused, fresh = (answer.content.decode() for answer in shown)
    assert '<option value="&#9;" selected>' in refused and '<option value="cp1252" selected>' in refused
    assert "<details open>" in refused and "<details open>" not in fresh
    assert "selected" not in fresh.partition('id="delimiter"')[2]


def test_nobody_is_asked_to_create_a_project_who_cannot(people: SimpleNamespace, settings: Any) -> None:
    client = client_of(people.viewer)

    def told() -> tuple[bool, bool]:
        home, upload = (client.get(reverse(name)).content.decode() for name in ("home", "dataset_upload"))
        return "Create a project" in home, "Create your own project, or ask" in upload

    assert told() == (True, True)
    settings.PROJECTS_MAX = 0
    assert told() == (False, False)


@pytest.mark.parametrize(("most", "words"), [(0, "Only admins of the installation"), (1, "created 1 project,")])
def test_the_page_says_why_one_can_create_no_further_project(
    most: int, words: str, people: SimpleNamespace, settings: Any
) -> None:
    project_create(user=people.owner, name="Zoo")
    settings.PROJECTS_MAX = most
    client, form = client_of(people.owner), f'action="{reverse("project_add")}"'
    page = client.get(reverse("project_list")).content.decode()
    assert words in page and form not in page
    told: Any = client.post(reverse("project_add"), {"name": "More"}, follow=True)
    assert words in told.content.decode() and not Project.objects.filter(name="More").exists()
    assert form in client_of(people.admin).get(reverse("project_list")).content.decode()


@pytest.mark.parametrize("name", ["New", "Add", "Trash", "Members"])
def test_a_project_of_any_name_has_a_page(name: str, people: SimpleNamespace) -> None:
    client = client_of(people.owner)
    told: Any = client.post(reverse("project_add"), {"name": name}, follow=True)
    assert told.status_code == 200 and f"<h1>{name}</h1>" in told.content.decode()

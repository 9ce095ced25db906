"""The page that deletes a project: what goes is told first, its name is typed, and it comes back."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.test import Client
from django.urls import reverse

from harness.accounts.models import Project
from harness.jobs.models import Job
from worker.states import JobState

pytestmark = pytest.mark.django_db


def place(world: SimpleNamespace, action: str = "") -> str:
    slug = world.project.slug
    return reverse("project_trash_act", args=[slug, action]) if action else reverse("project_end", args=[slug])


def client_of(user: object) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_jobs_in_the_way_are_named_with_the_next_step(owner: Client, world: SimpleNamespace) -> None:
    page = owner.get(place(world)).content.decode()
    assert "of them 1 draft<" in page and "more</li>" not in page
    assert "Cancel them" in page and world.jobs["running"].name in page and 'name="name"' not in page
    refused = owner.post(place(world), {"name": world.project.name})
    assert refused.status_code == 409 and world.jobs["running"].pk in refused.content.decode()
    assert Project.objects.get(pk=world.project.pk).deleted_at is None


def test_of_many_jobs_in_the_way_it_is_told_how_many_are_not_named(owner: Client, world: SimpleNamespace) -> None:
    job = Job.objects.get(pk=world.jobs["running"].pk)
    Job.objects.exclude(pk=job.pk).update(state=JobState.CANCELLED.value)
    for number in range(22):
        Job.objects.create(
            project=job.project, owner=job.owner, dataset=job.dataset, name=f"waits {number}", state="queued"
        )
    page = owner.get(place(world)).content.decode()
    assert page.count("(queued)") + page.count("(running)") == 20 and "<li>and 3 more</li>" in page


def test_it_goes_by_its_name_and_comes_back(owner: Client, world: SimpleNamespace) -> None:
    Job.objects.update(state=JobState.CANCELLED.value)
    page = owner.get(place(world)).content.decode()
    assert "datasets" in page.lower() and "kWh" in page and 'name="name"' in page
    wrong = owner.post(place(world), {"name": "something else"})
    assert wrong.status_code == 422 and world.project.name in wrong.content.decode()
    assert owner.post(place(world), {"name": ""}).status_code == 422
    assert owner.post(place(world), {"name": world.project.name}).url == reverse("project_list")
    listed = owner.get(reverse("project_list")).content.decode()
    assert "Projects in the trash" in listed and place(world, "restore") in listed
    assert owner.get(place(world)).status_code == 404
    assert owner.get(reverse("project_page", args=[world.project.slug])).status_code == 404
    assert owner.get(reverse("job_page", args=[world.jobs["running"].pk])).status_code == 404
    owner.post(place(world, "restore"))
    assert owner.get(reverse("project_page", args=[world.project.slug])).status_code == 200
    assert "Projects in the trash" not in owner.get(reverse("project_list")).content.decode()


def test_others_find_neither_the_page_nor_its_acts(world: SimpleNamespace) -> None:
    for user, status in ((world.viewer, 403), (world.outsider, 404)):
        client = client_of(user)
        assert client.get(place(world)).status_code == client.post(place(world)).status_code == status
        for action in ("restore", "purge"):
            client.post(place(world, action))
    assert client_of(world.outsider).post(place(world, "purge")).status_code == 404
    assert Project.objects.get(pk=world.project.pk).deleted_at is None
    assert Client().get(place(world)).status_code == 302


def test_the_page_says_to_type_what_deletes_a_project_of_an_older_name(owner: Client, world: SimpleNamespace) -> None:
    Job.objects.update(state=JobState.CANCELLED.value)
    Project.objects.filter(pk=world.project.pk).update(name="\x80")
    assert f"Type <strong>{world.project.slug}</strong>" in owner.get(place(world)).content.decode()
    assert owner.post(place(world), {"name": world.project.slug}).url == reverse("project_list")

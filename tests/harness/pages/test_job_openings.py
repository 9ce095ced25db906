"""On which page a draft or a copy opens."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.jobs.models import Job


@pytest.fixture
def owner(world: SimpleNamespace, client: Client) -> Client:
    client.force_login(world.owner)
    return client


def test_a_draft_opens_on_what_it_costs_and_one_in_the_trash_on_its_program(
    world: SimpleNamespace, owner: Client
) -> None:
    job = world.jobs["draft"]
    flat = re.sub(r"\s+", " ", owner.get(reverse("job_page", args=[job.pk])).content.decode())
    assert '<li aria-current="step"> <span>Time, memory, energy</span> </li>' in flat
    assert f'<a href="{reverse("job_tab", args=[job.pk, "program"])}">look at the program</a>' in flat
    Job.objects.filter(pk=job.pk).update(deleted_at=timezone.now())
    assert 'id="pg">Program</h2>' in owner.get(reverse("job_page", args=[job.pk])).content.decode()


def test_a_copy_is_changed_in_its_spec_and_one_of_an_edited_program_there(
    world: SimpleNamespace, owner: Client
) -> None:
    job = world.jobs["draft"]

    def copied() -> str:
        answer: Any = owner.post(reverse("job_act", args=[job.pk, "clone"]))
        return str(answer.url)

    assert copied().endswith("/spec/")
    owner.post(reverse("program_save", args=[job.pk]), {"name": "model.py", "text": "import os\n"})
    assert copied().endswith("/program/")

"""Pages of an installation in which nothing has happened yet: they say so, and ask for nothing that cannot be done."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.jobs.models import Job
from harness.pool.models import Node, NodeState
from worker.states import JobState


@pytest.fixture
def admin(people: SimpleNamespace) -> Client:
    client = Client()
    client.force_login(people.admin)
    return client


def shown(client: Client, name: str) -> str:
    answer = client.get(reverse(name))
    assert answer.status_code == 200
    return answer.content.decode()


def test_charts_without_values_are_no_tables_of_headings(admin: Client) -> None:
    text = shown(admin, "pool_use")
    assert "Nothing to show yet." in text
    assert "Data of Power" not in text


def test_without_finished_jobs_nothing_is_claimed_of_their_memory(admin: Client) -> None:
    text = shown(admin, "accuracy")
    assert "No estimated job has finished yet" in text and "None ran out of memory" not in text


def test_a_draft_is_not_told_that_no_node_is_up_while_one_drains(admin: Client, job_make: Any, node_make: Any) -> None:
    address = reverse("job_tab", args=[job_make().pk, "program"])
    assert "No node is up: it will wait until one joins." in " ".join(admin.get(address).content.decode().split())
    Node.objects.filter(pk=node_make("node-1").pk).update(state=NodeState.DRAIN, drain_wanted=True)
    text = " ".join(admin.get(address).content.decode().split())
    assert "an admin lets one do so again. Draining: node-1." in text and "No node is up" not in text


def test_a_draft_is_told_of_a_clock_that_is_off_and_not_that_its_node_drains(
    admin: Client, job_make: Any, node_make: Any
) -> None:
    address = reverse("job_tab", args=[job_make().pk, "program"])
    Node.objects.filter(pk=node_make("node-1").pk).update(state=NodeState.DRAIN)
    text = " ".join(admin.get(address).content.decode().split())
    assert "it will wait until the clock is right on one of these: node-1 (" in text and "Draining" not in text
    Node.objects.filter(pk=node_make("node-2").pk).update(state=NodeState.DRAIN, drain_wanted=True)
    text = " ".join(admin.get(address).content.decode().split())
    assert "Draining: node-2. Given nothing until the clock there is right: node-1." in text


def test_a_draft_is_told_of_two_machines_that_report_as_one_node_and_of_no_clock(
    admin: Client, job_make: Any, node_make: Any
) -> None:
    address = reverse("job_tab", args=[job_make().pk, "program"])
    shared = Node.objects.filter(pk=node_make("node-1").pk)
    shared.update(state=NodeState.DRAIN, description={"twins_at": 1.0})
    text = " ".join(admin.get(address).content.decode().split())
    assert "it will wait until one machine alone reports as one of these: node-1 (" in text and "clock" not in text
    other = Node.objects.filter(pk=node_make("node-2").pk)
    told = "Given nothing while two machines report as one node: node-1."
    for drain_wanted, before in ((False, "the clock is right on one of these: node-2 ("), (True, "Draining: node-2.")):
        other.update(state=NodeState.DRAIN, drain_wanted=drain_wanted)
        text = " ".join(admin.get(address).content.decode().split())
        assert before in text and told in text


@pytest.mark.parametrize(
    ("page", "form", "words"),
    [
        ("calibration", "calibration_begin", "No node is up"),
        ("reservations", "reservation_new", "No node has joined"),
        ("pool", "device_slow", "No node has joined yet"),
    ],
)
def test_a_form_that_needs_a_node_is_shown_once_there_is_one(admin: Client, page: str, form: str, words: str) -> None:
    text = shown(admin, page)
    assert words in text and f'action="{reverse(form)}' not in text


def test_a_search_for_data_that_finds_nothing_does_not_say_that_there_is_none(admin: Client) -> None:
    text = admin.get(reverse("job_new"), {"q": "zebra"}).content.decode()
    assert "Nothing matches" in text and "No data is ready" not in text and "Clear the search" in text


def test_a_job_that_was_cancelled_in_the_queue_is_said_never_to_have_run(admin: Client, job: Job) -> None:
    addresses = [reverse("job_tab", args=[job.pk, tab]) for tab in ("checkpoints", "results")]
    cancelled = Job.objects.filter(pk=job.pk)
    for token, words in ((0, ["It never ran."] * 2), (1, ["before it wrote its first", "before its first checkpoint"])):
        cancelled.update(state=JobState.CANCELLED, finished_at=timezone.now(), token=token)
        texts = [admin.get(address).content.decode() for address in addresses]
        assert all(said in text for said, text in zip(words, texts, strict=True))
        assert all(("never ran" in text) == (token == 0) for text in texts)

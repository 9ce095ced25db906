"""What the home page shows next to somebody without a model."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from django.test import Client

from harness.datasets.models import Dataset
from harness.jobs.models import Job
from harness.pages.first_steps import first_steps
from tests.factories import people_make

pytestmark = pytest.mark.django_db


@pytest.fixture
def people() -> SimpleNamespace:
    return people_make()


def dataset_in(people: SimpleNamespace, state: str) -> Dataset:
    return Dataset.objects.create(name="apples", source_name="a.csv", state=state, project=people.project,
                                  owner=people.owner, source_bytes=1)  # fmt: skip


def test_without_data_samples_are_offered_with_what_they_are(people: SimpleNamespace, client: Client) -> None:
    client.force_login(people.owner)
    page = client.get("/").content.decode()
    assert "From data to a trained model" in page and "178 wines, 13 measurements" in page


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("ready", "Train a model on apples"),
        ("profiling", "See how apples is being read"),
        ("failed", "See why apples cannot be used"),
    ],
)
def test_with_data_the_button_goes_on_from_it(people: SimpleNamespace, state: str, words: str) -> None:
    dataset_in(people, state)
    found = first_steps(people.owner)
    assert found is not None and found.words == words
    assert [done for _, done in found.steps] == [True, False, False, False]


@pytest.mark.parametrize(
    ("state", "words"), [("failed", "See why README cannot be used"), ("profiling", "See how README is being read")]
)
def test_data_that_can_be_used_lead_on_past_newer_ones_that_cannot(
    people: SimpleNamespace, client: Client, state: str, words: str
) -> None:
    dataset_in(people, "ready")
    Dataset.objects.filter(pk=dataset_in(people, state).pk).update(name="README")
    client.force_login(people.owner)
    page = " ".join(client.get("/").content.decode().split())
    assert re.search(r'<a class="btn btn-primary" href="/jobs/new/\w+/">Train a model on apples</a>', page)
    assert re.search(rf'<p class="mt-3 mb-0"><a href="[^"]+">{words}</a></p>', page)


@pytest.mark.parametrize(
    ("state", "words", "done"),
    [
        ("draft", "Go on with first try", 2),
        ("running", "Watch first try", 3),
        ("failed", "See what became of first try", 3),
    ],
)
def test_with_a_job_it_goes_on_from_the_newest(people: SimpleNamespace, state: str, words: str, done: int) -> None:
    dataset = dataset_in(people, "ready")
    common = {"project": people.project, "owner": people.owner, "dataset": dataset}
    Job.objects.create(id="a00000000001", name="first try", state=state, **common)
    found = first_steps(people.owner)
    assert found is not None and found.words == words
    assert sum(is_done for _, is_done in found.steps) == done


def test_once_a_job_has_succeeded_nothing_is_explained_any_more(people: SimpleNamespace, client: Client) -> None:
    dataset = dataset_in(people, "ready")
    common = {"project": people.project, "owner": people.owner, "dataset": dataset}
    Job.objects.create(id="a00000000001", name="first try", state="succeeded", **common)
    assert first_steps(people.owner) is None
    client.force_login(people.owner)
    assert "From data to a trained model" not in client.get("/").content.decode()
    assert first_steps(people.outsider) is not None

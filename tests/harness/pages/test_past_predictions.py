"""Earlier predictions are listed page by page, and deleted by who may."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from harness.jobs.models import Job, Prediction
from harness.pages.views import predict
from harness.pages.views.predict import PREDICTIONS_SHOWN

pytestmark = pytest.mark.django_db


@pytest.fixture
def job_of_many(job_make: Callable[..., Any], people: SimpleNamespace) -> Job:
    """A job with three predictions more than a page shows, of a member who does not own it."""
    job: Job = job_make()
    for number in range(PREDICTIONS_SHOWN + 3):
        Prediction.objects.create(
            job=job, owner=people.mate, input_name=f"rows {number}.csv", state="done", finished_at=timezone.now()
        )
    return job


def listed(client: Client, job: Job, query: str = "") -> list[str]:
    page = client.get(reverse("job_predict", args=[job.pk]) + query).content.decode()
    return re.findall(r">(rows \d+\.csv)</a>", page)


def test_all_are_found_on_some_page(job_of_many: Job, people: SimpleNamespace, client: Client) -> None:
    client.force_login(people.viewer)
    first, second = listed(client, job_of_many), listed(client, job_of_many, "?page=2")
    assert len(first) == PREDICTIONS_SHOWN and len(second) == 3
    assert set(first) | set(second) == set(Prediction.objects.values_list("input_name", flat=True))


def test_the_button_is_there_for_who_may_delete(job_of_many: Job, people: SimpleNamespace, client: Client) -> None:
    Prediction.objects.filter(input_name="rows 12.csv").update(owner=people.owner)
    for who, count in (("owner", 10), ("admin", 10), ("mate", 9), ("viewer", 0)):
        client.force_login(getattr(people, who))
        page = client.get(reverse("job_predict", args=[job_of_many.pk])).content.decode()
        assert page.count("/delete/") == count, who
    Prediction.objects.update(state="waiting")
    client.force_login(people.owner)
    assert "/delete/" not in client.get(reverse("job_predict", args=[job_of_many.pk])).content.decode()


def test_one_is_deleted_by_a_post_of_our_own_pages_alone(job_of_many: Job, people: SimpleNamespace) -> None:
    row = Prediction.objects.order_by("pk")[0]
    address = reverse("prediction_remove", args=[job_of_many.pk, row.pk])
    strict, client = Client(enforce_csrf_checks=True), Client()
    for one in (strict, client):
        one.force_login(people.mate)
    assert strict.post(address).status_code == 403 and client.get(address).status_code == 405
    assert Prediction.objects.filter(pk=row.pk).exists()
    answer = client.post(address, follow=True)
    assert "The prediction was deleted." in answer.content.decode()
    assert not Prediction.objects.filter(pk=row.pk).exists()
    assert client.post(address).status_code == 404


def test_one_that_a_node_works_on_is_not_deleted_and_its_page_says_why(
    job_of_many: Job, people: SimpleNamespace, client: Client
) -> None:
    row = Prediction.objects.order_by("pk")[0]
    Prediction.objects.filter(pk=row.pk).update(state="waiting")
    client.force_login(people.mate)
    page = client.post(reverse("prediction_remove", args=[job_of_many.pk, row.pk]), follow=True).content.decode()
    assert "A node still works on this prediction." in page and Prediction.objects.filter(pk=row.pk).exists()


@pytest.mark.parametrize(("state", "count"), [("waiting", 0), ("failed", 1), ("done", 1)])
def test_an_answer_that_comes_while_its_page_is_open_brings_the_button_along(
    job_of_many: Job,
    people: SimpleNamespace,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    count: int,
) -> None:
    monkeypatch.setattr(predict, "prediction_output_get", lambda _: {"columns": ["row"], "rows": [[1]]})
    row = Prediction.objects.order_by("pk")[0]
    Prediction.objects.filter(pk=row.pk).update(state=state)
    client.force_login(people.mate)
    address = reverse("prediction_page", args=[job_of_many.pk, row.pk])
    for headers in ({"HX-Request": "true"}, {}):
        page = client.get(address, headers=headers).content.decode()
        assert page.count("/predictions/" + row.pk + "/delete/") == count


@pytest.mark.parametrize(("name", "is_own"), [("rows.csv", True), ("form.json", False), ("zip.zip", False)])
def test_whoever_sent_a_file_of_rows_gets_it_back_answered(
    job_make: Callable[..., Any], people: SimpleNamespace, client: Client, name: str, is_own: bool
) -> None:
    job = job_make()
    made = Prediction.objects.create(job=job, owner=people.mate, input_name=name, state="done", rows=1)
    folder = settings.STORE.job(job.pk).prediction(made.pk)
    folder.mkdir(parents=True)
    (folder / "output.json").write_text('{"columns": ["row", "prediction"], "rows": [[1, "a"]]}')
    for suffix in ("csv", "json"):
        (folder / f"output-answered.{suffix}").write_text("x,prediction\n1,a\n")
    client.force_login(people.viewer)
    page = client.get(reverse("prediction_page", args=[job.pk, made.pk])).content.decode()
    place = f"/api/v1/jobs/{job.pk}/predictions/{made.pk}/file"
    assert (f'href="{place}"' in page) == is_own
    if is_own:
        answer = client.get(place)
        assert b"".join(answer.streaming_content) == b"x,prediction\n1,a\n"
        assert 'filename="rows-predicted.csv"' in answer["Content-Disposition"]

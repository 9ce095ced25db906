"""The threshold on the page of predictions: for two classes, the rarer one first, the usual one unless changed."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from harness.jobs.models import Job, Prediction
from harness.pages.views import predict


def results(world: SimpleNamespace, *classes: tuple[str, int]) -> Job:
    """A job with these classes in its results, so many test rows each."""
    job: Job = world.jobs["succeeded"]
    rows = [[name, rows, 0.5] for name, rows in classes if rows]
    chart = {"id": "per_class", "split": "test", "columns": ["class", "rows", "recall"], "rows": rows}
    body = {"classes": [name for name, _ in classes], "charts": [chart]}
    (settings.STORE.job(job.pk).results / "results.json").write_text(json.dumps(body))
    return job


def upload() -> SimpleUploadedFile:
    """A file to predict for."""
    return SimpleUploadedFile("rows.csv", b"a\n1\n")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The thresholds of what is asked of a node."""
    found: list[str] = []

    def create(*, job: Job, threshold: str, **_: Any) -> Prediction:
        found.append(threshold)
        return Prediction(id="noanswer0001", job=job)

    monkeypatch.setattr(predict, "prediction_create", create)
    return found


@pytest.mark.parametrize(
    ("classes", "offered"),
    [
        ([("<no>", 90), ("yes", 10)], ["yes", "<no>"]),
        ([("<no>", 90), ("yes", 10), ("maybe", 5)], []),
        ([("<no>", 90), ("yes", 10), ("maybe", 0)], []),
        ([], []),
    ],
)
def test_two_classes_are_offered_and_no_others(
    world: SimpleNamespace, owner: Client, classes: list[tuple[str, int]], offered: list[str]
) -> None:
    page = owner.get(reverse("job_predict", args=[results(world, *classes).pk]))
    assert page.context["two_classes"] == offered
    assert ('name="threshold"' in page.content.decode()) is bool(offered)
    assert b"<no>" not in page.content


def test_a_program_that_takes_no_threshold_is_not_offered_one(world: SimpleNamespace, owner: Client) -> None:
    job = results(world, ("no", 90), ("yes", 10))
    (settings.STORE.job(job.pk).program / "predict.py").write_text("print('of before')\n")
    assert owner.get(reverse("job_predict", args=[job.pk])).context["two_classes"] == []


@pytest.mark.parametrize(
    ("typed", "threshold"), [("0.3", "yes=0.3"), ("0,25", "yes=0.25"), ("0.50", ""), ("", ""), ("1", "yes=1.0")]
)
def test_the_threshold_that_is_typed_is_asked_for_and_the_usual_one_is_none(
    world: SimpleNamespace, owner: Client, asked: list[str], typed: str, threshold: str
) -> None:
    job = results(world, ("no", 90), ("yes", 10))
    given = {"file": upload(), "threshold": typed, "threshold_class": "yes"}
    assert owner.post(reverse("job_predict", args=[job.pk]), given).status_code == 302
    assert asked == [threshold]


@pytest.mark.parametrize("typed", ["1.5", "half", "nan"])
def test_what_is_no_probability_is_named_and_stays_in_its_field(
    world: SimpleNamespace, owner: Client, asked: list[str], typed: str
) -> None:
    job = results(world, ("no", 90), ("yes", 10))
    given = {"file": upload(), "threshold": typed, "threshold_class": "no"}
    answer = owner.post(reverse("job_predict", args=[job.pk]), given)
    page = answer.content.decode()
    assert answer.status_code == 422 and not asked
    assert "Write a probability from 0 to 1, like 0.5." in page and f'value="{typed}"' in page
    assert '<option value="no" selected>' in page


def test_a_class_that_the_model_does_not_have_is_refused(
    world: SimpleNamespace, owner: Client, asked: list[str]
) -> None:
    job = results(world, ("no", 90), ("yes", 10))
    answer = owner.post(
        reverse("job_predict", args=[job.pk]), {"file": upload(), "threshold": "0.3", "threshold_class": "--perhaps"}
    )
    assert answer.status_code == 422 and not asked
    assert "Choose yes or no." in answer.content.decode()

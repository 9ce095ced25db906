"""What the numbers that a job predicts are called, and what they count."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from codegen.profile.types import ColumnProfile, ColumnType
from harness.jobs.models import Job
from harness.pages import target
from harness.pages.target import Target, target_of
from harness.pages.verdict import verdict

pytestmark = pytest.mark.django_db


def column(spelling: str, kind: ColumnType = ColumnType.NUMERIC) -> ColumnProfile:
    return ColumnProfile(name="price", type=kind, guessed_type=kind, reason="", missing=0, unique=9, spelling=spelling)


@pytest.mark.parametrize(
    ("spelling", "unit"),
    [
        ("", ""),
        ("$", "$"),
        ("%", "%"),
        ("thousands", ""),
        ("thousands, $", "$"),
        ("decimal comma, €", "€"),
        ("h:mm", "s"),
    ],
)
def test_a_unit_is_what_the_file_writes_with_its_numbers(spelling: str, unit: str) -> None:
    assert column(spelling).unit == unit
    assert column("%d.%m.%Y", ColumnType.DATE).unit == ""


def test_it_stands_beside_the_name_of_the_target_and_the_error_on_the_test(
    world: SimpleNamespace, owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = world.jobs["succeeded"]
    assert target_of(job) == Target()
    spec = {"shape": {"target": "price"}}
    Job.objects.filter(pk=job.pk).update(task="tabular_regression", resolved={"spec": spec})
    job.refresh_from_db()
    monkeypatch.setattr(target, "job_profile", lambda _: SimpleNamespace(column=lambda _: column("thousands, $")))
    assert target_of(job).heading == "price ($)"
    body = {"metrics": {"test": {"mae": 3.21987, "r2": 0.5}}}
    (settings.STORE.job(job.pk).results / "results.json").write_text(json.dumps(body))
    page = owner.get(reverse("job_tab", args=[job.pk, "results"])).context["verdict"]
    assert page == verdict(job.task, body, "$") and "off by 3.22 $ on average" in page

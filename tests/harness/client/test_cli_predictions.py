"""`dlh predictions`: what was predicted with a job is listed and deleted."""

from __future__ import annotations

from types import SimpleNamespace

from django.utils import timezone

from harness.jobs.models import Job, Prediction
from tests.harness.client.conftest import Dlh


def test_predictions_are_listed_and_deleted(
    dlh: Dlh, portal: SimpleNamespace, job: Job, people: SimpleNamespace
) -> None:
    told = {"job": job, "owner": people.owner, "state": "done", "finished_at": timezone.now()}
    first, second, third = (
        Prediction.objects.create(input_name=f"rows{number}.csv", rows=4, **told).pk for number in range(3)
    )
    assert [row["id"] for row in dlh("predictions", job.pk, "--json").json] == [third, second, first]
    plain = dlh("predictions", job.pk).out
    assert "rows0.csv" in plain and "final weights" in plain
    assert dlh("predictions", job.pk, "--delete", first, "--delete", third, "--json").json == {
        "deleted": [first, third]
    }
    assert [row["id"] for row in dlh("predictions", job.pk, "--json").json] == [second]
    assert dlh("predictions", job.pk, "--delete", first, "--json").json["error"]["code"] == "not_found"

"""Predictions of a job by the API: all of them, page by page, and none that was deleted."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.test import Client
from django.utils import timezone

from harness.jobs.models import Job, Prediction

pytestmark = pytest.mark.django_db


def test_they_come_in_pages_and_are_deleted(job: Job, people: SimpleNamespace, client: Client) -> None:
    client.force_login(people.owner)
    place = f"/api/v1/jobs/{job.pk}/predictions"
    made = [
        Prediction.objects.create(job=job, owner=people.mate, state="done", finished_at=timezone.now()).pk
        for _ in range(5)
    ]
    first, last = (client.get(place, {"page": page, "page_size": 3}).json() for page in (1, 2))
    assert (first["total"], first["pages"], len(first["items"]), len(last["items"])) == (5, 2, 3, 2)
    assert [row["id"] for row in (*first["items"], *last["items"])] == made[::-1]
    assert client.delete(f"{place}/{made[0]}").status_code == 200
    assert client.delete(f"{place}/{made[0]}").status_code == 404
    Prediction.objects.filter(pk=made[1]).update(state="waiting")
    assert client.delete(f"{place}/{made[1]}").json()["error"]["code"] == "conflict"
    assert client.get(place).json()["total"] == 4

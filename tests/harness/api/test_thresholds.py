"""A threshold for a class, as the API takes it with a prediction."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from django.test import Client

from harness.jobs import services
from harness.jobs.models import Prediction
from tests.harness.api.conftest import API, is_error

pytestmark = pytest.mark.django_db


def test_it_comes_with_records_and_with_a_file(caller: Client, job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def create(*, job: Any, threshold: str, **_: Any) -> Prediction:
        asked.append(threshold)
        return Prediction.objects.create(job=job, owner=job.owner)

    monkeypatch.setattr(services, "prediction_create", create)
    place = f"{API}/jobs/{job.pk}/predictions"
    records = {"records": [{"length": 1}]}
    file = {"input": BytesIO(b"length\n1\n"), "threshold": "rose=0.4"}
    file["input"].name = "rows.csv"
    assert caller.post(place, records | {"threshold": "iris=0.3"}, "application/json").status_code == 201
    assert caller.post(place, file).status_code == 201
    assert caller.post(place, records, "application/json").status_code == 201
    assert asked == ["iris=0.3", "rose=0.4", ""]
    refused = caller.post(place, records | {"threshold": "x" * 1001}, "application/json")
    assert refused.status_code == 422 and is_error(refused) and len(asked) == 3

"""How often one person may ask for what costs a node's time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from harness.api.routes import exports, predictions
from tests.harness.api.conftest import API

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def counted_from_zero() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def ask(caller: Client, job: Any, name: str) -> int:
    """The status of a request that is counted and refused before a node is asked."""
    answer = caller.post(f"{API}/jobs/{job.pk}/{name}", "", "application/json")
    if answer.status_code == 429:
        assert answer.json()["error"]["code"] == "throttled" and answer["Retry-After"]
    return int(answer.status_code)


def test_predictions_take_nothing_from_what_one_may_export(caller: Client, job: Any) -> None:
    for _ in range(exports.PER_MINUTE_MAX):
        assert ask(caller, job, "predictions") == 422
    assert ask(caller, job, "onnx") != 429


@pytest.mark.parametrize(
    ("name", "most"), [("predictions", predictions.PER_MINUTE_MAX), ("onnx", exports.PER_MINUTE_MAX)]
)
def test_each_has_its_own_end(caller: Client, job: Any, name: str, most: int) -> None:
    assert 429 not in {ask(caller, job, name) for _ in range(most)}
    assert ask(caller, job, name) == 429


def test_one_person_takes_nothing_from_another(caller: Client, bearer: Any, people: Any, job: Any) -> None:
    for _ in range(exports.PER_MINUTE_MAX + 1):
        last = ask(caller, job, "onnx")
    assert last == 429 and ask(bearer(people.mate), job, "onnx") != 429

"""The pace of a node is told with its evidence: pool page, calibration page, API."""

from __future__ import annotations

import html
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from harness.measuring.fitting import model_correct
from harness.pool.models import Device
from tests.harness.estimates.node_jobs import KIND, NAME, finished_make


@pytest.fixture
def owner(people: SimpleNamespace, node_make: Any, job: Any) -> Client:
    """Of a project, in whose pool node-b takes half as long again."""
    for name in ("node-a", "node-b"):
        node_make(name)
    finished_make(job, {"node-a": 1.0, "node-b": 1.5})
    model_correct(KIND, NAME)
    client = Client()
    client.force_login(people.owner)
    return client


def words(answer: Any) -> str:
    return " ".join(html.unescape(answer.content.decode()).split())


def test_the_pool_page_tells_it_once_of_the_node_that_differs(owner: Client) -> None:
    page = words(owner.get("/pool/"))
    assert page.count("core: the newest 16 finished jobs took 1.") == 1
    assert "the ranges of estimates allow for it." in page


def test_the_calibration_page_tells_it_of_the_chosen_model(owner: Client) -> None:
    page = words(owner.get("/pool/calibration/"))
    assert "node-b</a>: core: the newest 16 finished jobs took 1." in page and "node-a</a>" not in page


def test_the_api_tells_the_figures(owner: Client) -> None:
    first, second = owner.get("/api/v1/pool").json()["nodes"]
    (told,) = second["paces"]
    assert told["low"] < told["factor"] < told["high"] and told["jobs"] == 16
    assert told["words"].startswith("core: ")
    assert first["paces"] == []


def test_of_devices_that_are_no_more_nothing_is_told(owner: Client) -> None:
    Device.objects.update(model_name="another")
    assert [node["paces"] for node in owner.get("/api/v1/pool").json()["nodes"]] == [[], []]

"""The pace of a node is told with its evidence: pool page, calibration page, API."""

from __future__ import annotations

import html
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from harness.calibration.fitting import model_correct
from harness.calibration.models import DeviceModelRow
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


def test_the_pool_page_names_the_pace_beside_the_devices_and_its_evidence_once(owner: Client) -> None:
    page = words(owner.get("/pool/"))
    assert page.count("offers and plans count it as 1.5 times as slow.") == 1
    assert page.count("Measured by finished jobs") == 2, "on each of its cores"
    assert "make no difference" not in page, "of node-a there is nothing to say"


def test_the_calibration_page_compares_all_nodes_with_such_devices(owner: Client) -> None:
    page = words(owner.get("/pool/calibration/"))
    assert "node-a</a>: core: the newest 16 finished jobs took 1.00 times as long" in page
    assert "node-b</a>: core: the newest 16 finished jobs took 1." in page


def test_the_api_tells_the_figures(owner: Client) -> None:
    first, second = owner.get("/api/v1/pool").json()["nodes"]
    assert [device["pace"] for device in second["devices"]] == [1.5, 1.5]
    (told,) = second["paces"]
    assert told["low"] < told["factor"] < told["high"] and (told["pace"], told["jobs"]) == (1.5, 16)
    assert told["since"] and told["words"].startswith("core: ")
    assert [pace["pace"] for pace in first["paces"]] == [1.0]


def test_what_no_new_job_tells_any_more_is_said_to_be_from_before(owner: Client) -> None:
    DeviceModelRow.objects.all().delete()
    (told,) = owner.get("/api/v1/pool").json()["nodes"][1]["paces"]
    assert told["words"] == "core: by jobs of before, offers and plans count it as 1.5 times as slow."
    assert told["factor"] is None and told["jobs"] == 0
    Device.objects.update(pace=1.0)
    assert owner.get("/api/v1/pool").json()["nodes"][1]["paces"] == []

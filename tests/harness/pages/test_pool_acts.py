"""What the pages of the pool say and do, beyond who may see them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse


def test_a_job_of_another_project_is_not_named_in_the_pool(world: SimpleNamespace, client: Client) -> None:
    client.force_login(world.outsider)
    page = client.get("/pool/").content.decode()
    assert world.jobs["running"].name not in page and "job of another project" in page


def test_an_admin_drains_and_undrains_a_node(world: SimpleNamespace, client: Client) -> None:
    client.force_login(world.admin)
    assert "accepts no new jobs" in client.post("/pool/nodes/node-1/drain/", follow=True).content.decode()
    assert "accepts jobs again" in client.post("/pool/nodes/node-1/undrain/", follow=True).content.decode()


def test_a_node_that_somebody_has_drained_meanwhile_is_called_so(world: SimpleNamespace, client: Client) -> None:
    client.force_login(world.admin)
    assert "Drain node-1?" in client.get("/pool/drain/node-1/").content.decode()
    client.post("/pool/nodes/node-1/drain/")
    page = client.get("/pool/drain/node-1/", follow=True)
    assert page.redirect_chain == [("/pool/", 302)]
    assert "node-1 accepts no new jobs already." in page.content.decode()


def test_an_admin_gets_the_command_that_lets_a_machine_in_once(world: SimpleNamespace, client: Client) -> None:
    client.force_login(world.admin)
    answer = client.post("/pool/nodes/", {"name": "node-9"})
    assert "dlh node join" in answer.content.decode() and answer["Cache-Control"] == "no-store"
    assert "--cache FOLDER" in answer.content.decode(), "a machine that does not mount the store may join, too"
    assert "dlh node join" in client.post("/pool/nodes/", {"name": "node-9"}).content.decode()
    assert "dlh node join" not in client.get("/pool/").content.decode()
    refused = client.post("/pool/nodes/", {"name": "No Name"})
    assert refused.status_code == 422 and "lower-case letters" in refused.content.decode()


def test_the_pool_page_shows_what_a_node_s_doctor_found(world: SimpleNamespace, client: Client) -> None:
    from harness.pool.models import Node

    line = {"name": "clock", "state": "warn", "text": "2.0 s behind", "meaning": "<b>", "step": "Set it by NTP."}
    Node.objects.filter(name="node-1").update(check_result={"at_s": 0, "findings": [line]})
    client.force_login(world.admin)
    page = client.get("/pool/").content.decode()
    assert "1 to look at" in page and "2.0 s behind" in page and "Set it by NTP." in page and "&lt;b&gt;" in page


def test_the_pool_page_tells_admins_how_far_the_reading_of_events_is(
    world: SimpleNamespace, client: Client, monkeypatch: Any
) -> None:
    from harness.errors import Unavailable
    from harness.jobs.readers import Reading, StreamState
    from harness.pages.views import pool

    told = StreamState(number=3, waiting=1200, behind_s=75.0, reader="<host>/12", read_at_s=1.7e9)
    found = Reading(streams=(told,), readers=("<host>/12",), decided_by="other/9", decided_at_s=1.7e9)
    monkeypatch.setattr(pool, "reading_state", lambda: found)
    client.force_login(world.admin)
    assert reverse("pool_readers") in client.get("/pool/").content.decode()
    page = client.get(reverse("pool_readers"), HTTP_HX_REQUEST="true").content.decode()
    assert "1 min 15 s" in page and "&lt;host&gt;/12" in page and "<host>" not in page and "other/9" in page

    def refused() -> None:
        raise Unavailable("The broker refuses us.", hint="Give it the <password>.")

    monkeypatch.setattr(pool, "reading_state", refused)
    page = client.get(reverse("pool_readers"), HTTP_HX_REQUEST="true").content.decode()
    assert "The broker refuses us." in page and "Give it the &lt;password&gt;." in page
    client.force_login(world.owner)
    assert reverse("pool_readers") not in client.get("/pool/").content.decode()


@pytest.mark.parametrize("part", ["readers", "object-store"])
def test_a_part_of_the_page_of_the_pool_opened_by_itself_leads_to_the_page(
    world: SimpleNamespace, client: Client, part: str
) -> None:
    client.force_login(world.admin)
    assert client.get(f"/pool/{part}/")["Location"] == "/pool/"
    assert client.get(f"/pool/{part}/", HTTP_HX_REQUEST="true").status_code == 200

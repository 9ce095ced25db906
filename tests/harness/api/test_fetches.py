"""Datasets from web addresses, by the API."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from harness.fetches.claims import STALE
from harness.fetches.models import Fetch
from harness.fetches.running import fetch_next
from tests.file_servers import CSV, files_running, status, whole
from tests.harness.api.conftest import API, TUS
from tests.harness.fetches.conftest import LOOPBACK


@pytest.fixture
def caller(people: SimpleNamespace, bearer: Any, settings: Any) -> Client:
    settings.FETCH_NETWORKS = LOOPBACK
    return bearer(people.owner)


def begin(caller: Client, url: str, **more: Any) -> Any:
    return caller.post(f"{API}/fetches", data={"url": url, "project": "birds", **more}, content_type="application/json")


def test_a_fetch_is_begun_followed_and_names_its_dataset(caller: Client) -> None:
    with files_running() as files:
        files.acts["/t.csv"] = whole()
        made = begin(caller, files.url("/t.csv?sig=secret"), name="Table", options={"target": "kind"})
        assert made.status_code == 201
        body = made.json()
        assert (body["state"], body["filename"], body["project"], body["dataset"]) == (
            "waiting",
            "t.csv",
            "birds",
            None,
        )
        assert "secret" not in made.content.decode()
        assert fetch_next()
    body = caller.get(f"{API}/fetches/{body['id']}").json()
    assert (body["state"], body["offset_bytes"], body["total_bytes"]) == ("done", len(CSV), len(CSV))
    dataset = caller.get(f"{API}/datasets/{body['dataset']}").json()
    assert (dataset["name"], dataset["options"]) == ("Table", {"target": "kind"})
    assert [one["id"] for one in caller.get(f"{API}/fetches").json()["items"]] == [body["id"]]
    assert caller.get(f"{API}/uploads").json()["items"] == []


def test_one_that_failed_says_why_and_may_be_tried_again_or_given_up(caller: Client) -> None:
    with files_running() as files:
        files.acts["/t.csv"] = status(404)
        place = f"{API}/fetches/{begin(caller, files.url('/t.csv')).json()['id']}"
        fetch_next()
        assert caller.get(place).json()["problem"]["code"] == "not_found"
        files.acts["/t.csv"] = whole()
        assert caller.post(f"{place}/again").json()["state"] == "waiting"
        assert caller.post(f"{place}/again").status_code == 409
        assert caller.delete(place).status_code == 200
    assert caller.get(place).status_code == 404 and not fetch_next()


def test_the_page_of_a_file_is_refused_with_the_files_own_address(caller: Client) -> None:
    answer = begin(caller, "https://github.com/a/b/blob/main/iris.csv")
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["code"] == "share_page"
    assert error["details"]["direct_url"] == "https://github.com/a/b/raw/main/iris.csv"


def test_nobody_sends_pieces_into_what_control_fetches(caller: Client) -> None:
    fetch_id = begin(caller, "https://data.example.org/t.csv").json()["id"]
    place = f"{API}/uploads/{fetch_id}"
    piece = {"data": b"a", "content_type": "application/offset+octet-stream"}
    assert caller.patch(place, headers={**TUS, "Upload-Offset": "0"}, **piece).status_code == 409
    assert caller.head(place, headers=TUS).status_code == 409
    assert caller.delete(place, headers=TUS).status_code == 204
    assert not Fetch.objects.exists()


def test_time_left_is_told_where_the_length_is_known(caller: Client) -> None:
    fetch_id = begin(caller, "https://data.example.org/t.csv").json()["id"]
    now = timezone.now() + timedelta(seconds=5)
    Fetch.objects.filter(pk=fetch_id).update(state="fetching", beat_at=now, total_bytes=100, rate_bytes_s=25.0)
    assert caller.get(f"{API}/fetches/{fetch_id}").json()["left_s"] == 4.0
    Fetch.objects.filter(pk=fetch_id).update(total_bytes=None)
    assert caller.get(f"{API}/fetches/{fetch_id}").json()["left_s"] is None


def test_what_waits_where_fetches_were_turned_off_says_so(
    caller: Client, people: SimpleNamespace, settings: Any
) -> None:
    made = begin(caller, "http://127.0.0.1:9999/t.csv").json()
    assert made["problem"] is None
    settings.FETCHES_AT_ONCE = 0
    body = caller.get(f"{API}/fetches/{made['id']}").json()
    assert (body["state"], body["problem"]["code"]) == ("waiting", "fetch_off")
    browser = Client()
    browser.force_login(people.owner)
    page = browser.get("/datasets/fetches/").content.decode()
    assert "fetches nothing from web addresses any more" in page and "Waiting for its turn" not in page


def test_what_was_under_way_where_fetches_were_turned_off_says_so_once_nobody_is_at_it(
    caller: Client, people: SimpleNamespace, settings: Any
) -> None:
    place = f"{API}/fetches/{begin(caller, 'http://127.0.0.1:9999/t.csv').json()['id']}"
    settings.FETCHES_AT_ONCE, settings.UPLOAD_EXPIRES_DAYS = 0, 9
    Fetch.objects.update(state="fetching", beat_at=timezone.now(), total_bytes=100, rate_bytes_s=25.0)
    assert (caller.get(place).json()["problem"], caller.get(place).json()["left_s"]) == (None, 4.0)
    Fetch.objects.update(beat_at=timezone.now() - STALE - timedelta(seconds=1))
    body = caller.get(place).json()
    assert (body["problem"]["code"], body["rate_bytes_s"], body["left_s"]) == ("fetch_off", 0.0, None)
    assert "9 days" in body["problem"]["hint"]
    browser = Client()
    browser.force_login(people.owner)
    page = browser.get("/datasets/fetches/").content.decode()
    assert "fetches nothing from web addresses any more" in page and "9 days" in page
    assert "/s" not in page.partition("fetches nothing")[2].partition("</p>")[0] and "<progress" not in page

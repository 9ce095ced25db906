"""What is not taken, and the words for it: web pages, too much, bombs, servers that drip."""

from __future__ import annotations

import gzip
from datetime import timedelta

import pytest
from django.conf import settings as django_settings

from harness.datasets.models import Dataset
from harness.errors import Invalid
from harness.fetches import claims, pace, running
from harness.fetches.services import fetch_create
from harness.storage.quotas import storage_quota_set
from harness.storage.use import storage_of
from tests.file_servers import CSV, chunked, drips, packed, redirect, status, whole

HEAD = b"HTTP/1.1 200 OK\r\n"
PAGE = b"\n<!DOCTYPE html><html><title>Sign in</title>"


@pytest.mark.parametrize("headers", [{"Content_Type": "text/html"}, {"Content_Type": "text/csv"}, {}])
def test_a_web_page_is_no_data_whatever_it_is_called(files, fetched, headers):
    files.acts["/t.csv"] = whole(PAGE, **headers)
    fetch = fetched("/t.csv")
    assert (fetch.state, fetch.problem["code"]) == ("failed", "web_page") and fetch.problem["hint"]
    assert Dataset.objects.count() == 0 and fetch.upload.size_bytes == 0


@pytest.mark.parametrize(("name", "code"), [("a.safetensors", "weights"), ("a.pt", "weights_pickle")])
def test_weights_that_only_the_answer_names_as_such_are_refused(files, fetched, name, code):
    files.acts["/latest"] = whole(b"x" * 100, Content_Disposition=f'attachment; filename="{name}"')
    fetch = fetched("/latest")
    assert (fetch.state, fetch.problem["code"]) == ("failed", code) and fetch.problem["hint"]
    assert Dataset.objects.count() == 0


def test_a_table_that_the_server_calls_a_page_is_taken(files, fetched):
    files.acts["/t.csv"] = whole(Content_Type="text/html; charset=utf-8")
    assert fetched("/t.csv").state == "done"


def test_a_redirect_to_the_metadata_service_fails_with_the_reason(files, fetched):
    files.acts["/t.csv"] = redirect("http://169.254.169.254/latest/meta-data/")
    fetch = fetched("/t.csv")
    assert fetch.problem["code"] == "refused_address" and "169.254.169.254" in fetch.problem["message"]


def test_nothing_at_the_address_fails_with_the_reason(files, fetched):
    files.acts["/empty.csv"] = whole(b"")
    assert fetched("/missing.csv").problem["code"] == "not_found"
    assert fetched("/empty.csv").problem["code"] == "empty"


def test_too_large_a_file_is_refused_before_it_is_sent_or_as_soon_as_it_is(files, fetched, settings):
    settings.UPLOAD_LIMIT_BYTES = 2000
    files.acts |= {"/told.csv": whole(), "/chunks.csv": chunked(), "/packed.csv": packed()}
    for path in files.acts:
        fetch = fetched(path)
        assert (fetch.state, fetch.problem["code"]) == ("failed", "too_large")
        assert (fetch.upload.size_bytes, django_settings.STORE.upload(fetch.pk).stat().st_size) == (0, 0)


def test_the_quota_holds_for_what_tells_no_length_too(files, fetched, people):
    limit_bytes = 4096 + len(CSV) // 2  # a block of the disk for the first one
    storage_quota_set(user=people.admin, project=people.project, limit_bytes=limit_bytes)
    files.acts |= {"/t.csv": chunked(), "/told.csv": whole()}
    first = fetched("/t.csv")
    assert first.state == "done", "room that is held ahead must not refuse what fits"
    for path in files.acts:
        refused = fetched(path)
        assert (refused.state, refused.problem["code"]) == ("failed", "storage_quota")
    assert storage_of(people.project).use.used_bytes <= limit_bytes


def test_a_bomb_is_not_unpacked(files, fetched):
    files.acts["/t.csv"] = packed(b"0,0\n" * (8 << 20))
    fetch = fetched("/t.csv")
    assert (fetch.state, fetch.problem["code"]) == ("failed", "bomb")
    assert django_settings.STORE.upload(fetch.pk).stat().st_size == 0


@pytest.mark.parametrize("body", [gzip.compress(CSV)[:-9], b"no gzip at all", gzip.compress(CSV) + b"rest"])
def test_gzip_that_is_broken_makes_no_dataset(files, fetched, body):
    files.acts["/t.csv"] = whole(body, Content_Encoding="gzip")
    assert fetched("/t.csv").problem["code"] in {"cut_off", "encoding"}
    assert Dataset.objects.count() == 0


def test_whoever_drips_gives_the_slot_back(files, fetched, monkeypatch):
    monkeypatch.setattr(pace, "SLOW_S", 0.2)
    monkeypatch.setattr(claims, "TRY_AFTER_S", (0,))
    files.acts["/t.csv"] = drips(HEAD + b"Content-Length: 999999\r\n\r\n" + CSV[:100])
    fetch = fetched("/t.csv")
    assert (fetch.state, fetch.problem["code"]) == ("failed", "too_slow")


def test_after_a_day_it_is_given_up(files, fetched, monkeypatch, people, run_all):
    files.acts["/t.csv"] = status(503)
    monkeypatch.setattr(running, "WHOLE", timedelta(seconds=-1))
    assert fetched("/t.csv").problem["code"] == "too_slow" and files.asked == []


@pytest.mark.parametrize(("name", "told"), [("model.safetensors", "not fetched"), ("model.pt", "pickle by its name")])
def test_weights_are_not_fetched(people, name, told):
    with pytest.raises(Invalid, match=told):
        fetch_create(user=people.owner, project=people.project, url=f"https://data.example.org/{name}")

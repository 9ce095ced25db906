"""How the copy stands, in words: from the disk alone, and as the next person would want to know it."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from django.test import Client

from harness.bucket import mirror
from harness.bucket.mirror import mirror_pass
from harness.bucket.state import Tally, state_read, state_write
from harness.bucket.status import Standing, bucket_status
from harness.bucket.trouble import BucketTrouble
from harness.bucket.units import unit_forget
from harness.env import S3Settings
from tests.waiting import wait_for

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tasks_sent")]


def listed(bucket):
    texts = [json.loads(bucket.text_get(name))["files"] for name in bucket.names("units")]
    return len(texts), sum(map(len, texts)), sum(row["bytes"] for rows in texts for row in rows)


def changed(**what):
    state_write(replace(state_read(), **what))


def test_without_an_object_store_there_is_nothing_to_say(settings):
    settings.S3 = None
    assert bucket_status() is None


def test_a_whole_copy_is_told_with_what_it_lists(finished, bucket, object_server):
    before = bucket_status()
    assert (before.state, before.complete_s, before.units) == (Standing.FIRST, None, 0) and before.step
    began_s = time.time()
    assert mirror_pass()
    found = bucket_status()
    assert (found.state, found.text, found.step, found.waiting) == (Standing.WHOLE, "", "", 0)
    assert began_s <= found.complete_s <= time.time() and not found.copying
    assert (found.units, found.files, found.bytes) == listed(bucket) and found.units == 2
    assert found.url == f"s3://{bucket.given.place}" and found.endpoint == object_server.endpoint


def test_the_object_store_itself_is_not_asked(finished, bucket, object_server, settings):
    assert mirror_pass()
    settings.S3 = replace(bucket.given, key="nobody")
    assert bucket_status().state == Standing.WHOLE


def test_what_a_deleted_job_listed_no_longer_counts(finished, bucket, store):
    import shutil

    assert mirror_pass()
    shutil.rmtree(store.job(finished.pk).root)
    unit_forget(f"jobs/{finished.pk}")
    finished.delete()
    assert mirror_pass()
    found = bucket_status()
    assert found.units == 1 and (found.units, found.files, found.bytes) == listed(bucket)


def test_trouble_is_told_with_its_next_step_and_how_much_waits(finished, bucket, object_server):
    assert mirror_pass()
    complete_s = bucket_status().complete_s
    object_server.kill()
    try:
        assert not mirror_pass()
    finally:
        object_server.start()
    found = bucket_status()
    assert found.state == Standing.TROUBLE and "does not answer" in found.text and "DLH_S3_ENDPOINT" in found.step
    assert found.complete_s == complete_s and found.units == 2 and found.waiting == 2
    assert mirror_pass() and bucket_status().state == Standing.WHOLE


def test_trouble_in_the_midst_leaves_the_rest_waiting(finished, bucket, monkeypatch):
    put = mirror.unit_push

    def some(bucket, unit, **how):
        if unit.startswith("jobs/"):
            raise BucketTrouble("no", "do")
        return put(bucket, unit, **how)

    monkeypatch.setattr(mirror, "unit_push", some)
    monkeypatch.setattr(mirror, "THREADS", 1)
    assert not mirror_pass()
    found = bucket_status()
    assert (found.text, found.step, found.units, found.waiting) == ("no", "do", 1, 1)


def test_a_sweep_that_fails_is_told_though_everything_is_copied(finished, bucket):
    bucket.text_put("units/jobs/broken.json", "x")
    assert not mirror_pass()
    found = bucket_status()
    assert found.state == Standing.TROUBLE and "damaged" in found.text and found.complete_s and found.waiting == 0


def test_a_pass_that_takes_long_says_how_far_it_is(finished, bucket, monkeypatch):
    seen = []
    put = bucket.text_put

    def look(name, text):
        put(name, text)
        if name.startswith("units/"):
            wait_for(lambda: bucket_status().waiting == 2 - len(seen))
            seen.append(bucket_status())

    monkeypatch.setattr(bucket, "text_put", look)
    monkeypatch.setattr(mirror, "NOTE_EVERY_S", 0.0)
    monkeypatch.setattr(mirror, "THREADS", 1)
    assert mirror_pass()
    assert [(found.copying, found.state, found.units) for found in seen] == [
        (True, Standing.FIRST, 0),
        (True, Standing.FIRST, 1),
    ]
    assert not bucket_status().copying


@pytest.mark.parametrize(
    ("complete_ago_s", "began_ago_s", "state"),
    [(60, 60, Standing.WHOLE), (2000, 10, Standing.BEHIND), (2000, 2000, Standing.STOPPED)],
)
def test_a_copy_that_grows_old_is_told_as_such(finished, bucket, complete_ago_s, began_ago_s, state):
    assert mirror_pass()
    now_s = time.time()
    changed(complete_s=now_s - complete_ago_s, began_s=now_s - began_ago_s)
    found = bucket_status()
    assert found.state == state and bool(found.step) == (state != Standing.WHOLE)


def test_a_long_pass_that_still_goes_on_is_not_called_stopped(finished, bucket):
    assert mirror_pass()
    changed(complete_s=time.time() - 2000, began_s=time.time() - 2000)
    with mirror.alone():
        assert bucket_status().state == Standing.BEHIND


def test_what_is_known_of_another_place_says_nothing_of_this_one(finished, bucket, settings):
    assert mirror_pass()
    settings.S3 = replace(bucket.given, place="pool/elsewhere")
    assert (bucket_status().state, bucket_status().units) == (Standing.FIRST, 0)


def test_lists_that_did_not_change_are_read_once(finished, bucket, monkeypatch):
    assert mirror_pass()
    tally = Tally()
    first = tally.count()
    monkeypatch.setattr("harness.bucket.state.rows_read", lambda text: pytest.fail("read again"))
    assert tally.count() == first and first.units == 2


def test_admins_read_it_by_the_api_and_on_the_pool_page(finished, bucket, people, settings):
    client = Client()
    client.force_login(people.admin)
    assert mirror_pass()
    told = client.get("/api/v1/pool/object-store").json()
    assert told["used"] and told["state"] == "whole" and told["units"] == 2
    page = client.get("/pool/").content.decode()
    assert f"s3://{bucket.given.place}" in page and "Copy is whole" in page
    changed(trouble="the key of <DLH_S3_KEY> may not do that", step="allow it")
    part = client.get("/pool/object-store/", HTTP_HX_REQUEST="true").content.decode()
    assert "&lt;DLH_S3_KEY&gt; may not do that" in part and "Next step: allow it." in part and "Not copied" in part
    assert client.get("/api/v1/pool/object-store").json()["step"] == "allow it"
    client.force_login(people.owner)
    assert "Object store" not in client.get("/pool/").content.decode()
    settings.S3 = None
    client.force_login(people.admin)
    assert client.get("/api/v1/pool/object-store").json()["used"] is False
    assert "Object store" not in client.get("/pool/").content.decode()
    assert not client.get("/pool/object-store/", HTTP_HX_REQUEST="true").content.strip()


def test_no_secret_is_told(people, settings, store):
    settings.S3 = S3Settings("pool/x", "http://127.0.0.1:9", "us-east-1", "the-key", "the-secret")
    client = Client()
    client.force_login(people.admin)
    text = client.get("/api/v1/pool/object-store").content.decode() + client.get("/pool/").content.decode()
    assert "pool/x" in text and "the-key" not in text and "the-secret" not in text

"""The object store against a real server: bytes under their hashes, and trouble in words that name the setting."""

from __future__ import annotations

import hashlib
import io
import os
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from botocore.exceptions import ClientError

from harness.bucket import client
from harness.bucket.client import Bucket, Changed, blob_name, bucket_get
from harness.bucket.trouble import BucketTrouble

web = httpx.Client(timeout=120, limits=httpx.Limits(max_keepalive_connections=0))


def sha(body):
    return hashlib.sha256(body).hexdigest()


def put(bucket, body):
    bucket.put(io.BytesIO(body), sha(body), len(body))
    return sha(body)


def test_without_the_setting_there_is_none(settings):
    settings.S3 = None
    assert bucket_get() is None


def test_bytes_come_back_as_they_were_put(bucket, tmp_path):
    body = os.urandom(100_000)
    name = put(bucket, body)
    assert bucket.has(name, len(body)) and not bucket.has(name, len(body) - 1) and not bucket.has("0" * 64, 1)
    bucket.get(blob_name(name), tmp_path / "there")
    assert (tmp_path / "there").read_bytes() == body
    bucket.remove(blob_name(name))
    assert not bucket.has(name, len(body))
    bucket.remove(blob_name(name))
    with pytest.raises(FileNotFoundError):
        bucket.get(blob_name(name), tmp_path / "gone")


def test_large_files_go_in_parts_and_nothing_is_there_if_they_changed_meanwhile(bucket, tmp_path, monkeypatch):
    monkeypatch.setattr(client, "WHOLE_BYTES", 1 << 20)
    monkeypatch.setattr(client, "PART_BYTES", 5 << 20)
    body = os.urandom((12 << 20) + 5)
    name = put(bucket, body)
    bucket.get(blob_name(name), tmp_path / "there")
    assert sha((tmp_path / "there").read_bytes()) == name
    other = sha(b"other")
    for changed in (body, b"another"):
        with pytest.raises(Changed):
            bucket.put(io.BytesIO(changed), other, len(changed))
    assert not bucket.names(f"sha256/{other[:2]}") or blob_name(other) not in bucket.names(f"sha256/{other[:2]}")


def test_an_object_that_was_found_right_becomes_a_blob_where_it_lies(bucket, tmp_path):
    name = "incoming/a/1-1/x"
    bucket.text_put(name, "hello")
    etag = bucket.get_one(name, tmp_path / "x")
    assert (tmp_path / "x").read_text() == "hello"
    bucket.adopt(name, sha(b"hello"), etag)
    assert bucket.has(sha(b"hello"), 5) and bucket.names("incoming") == {}
    for asked in (lambda: bucket.adopt(name, sha(b"x"), etag), lambda: bucket.get_one(name, tmp_path / "x")):
        with pytest.raises(FileNotFoundError):
            asked()


def test_an_object_that_was_exchanged_since_it_was_read_becomes_no_blob(bucket, tmp_path):
    name = "incoming/a/1-1/x"
    bucket.text_put(name, "hello")
    etag = bucket.get_one(name, tmp_path / "x")
    bucket.text_put(name, "jello")
    for version in (etag, ""):
        with pytest.raises(FileNotFoundError):
            bucket.adopt(name, sha(b"hello"), version)
    assert not bucket.has(sha(b"hello"), 5) and bucket.answers


def test_an_object_that_is_exchanged_while_it_is_read_is_told_as_not_there(bucket, tmp_path, monkeypatch):
    monkeypatch.setattr(client, "PART_BYTES", 3)
    name, ranges, opened = "incoming/a/1-1/x", [], bucket._fs.open
    bucket.text_put(name, "hello")

    def exchanged(*args, **more):
        stream = opened(*args, **more)
        read = stream.read

        def then_put(size):
            block = read(size)
            ranges.append(block)
            bucket.text_put(name, "jello")
            return block

        stream.read = then_put
        return stream

    monkeypatch.setattr(bucket._fs, "open", exchanged)
    with pytest.raises(FileNotFoundError):
        bucket.get_one(name, tmp_path / "x")
    assert ranges == [b"hel"] and bucket.answers


def test_names_tell_when_they_were_written(bucket):
    bucket.text_put("units/jobs/a.json", "{}")
    assert list(bucket.names("units")) == ["units/jobs/a.json"] and bucket.names("nothing") == {}
    assert abs(bucket.names("units")["units/jobs/a.json"] - datetime.now(UTC)) < timedelta(minutes=5)


def test_a_signed_address_reads_a_part_or_puts_exactly_so_many_bytes_and_nothing_else(bucket, tmp_path):
    body = os.urandom(70_000)
    address = bucket.address_get(put(bucket, body))
    part = web.get(address, headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, body[10:20])
    assert web.put(address, content=b"x").status_code == 403
    there = bucket.address_put("incoming/a/1-1/b", len(body))
    assert web.put(there, content=body[:-1]).status_code >= 400
    assert web.put(there, content=body).status_code == 200
    assert web.get(there).status_code == 403
    bucket.get("incoming/a/1-1/b", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == body
    assert web.get(address.replace("X-Amz-Signature=", "X-Amz-Signature=0")).status_code == 403


def test_a_check_leaves_nothing_behind(bucket):
    assert bucket.check() > 0 and bucket.names("check") == {}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"secret": "not-the-secret"}, "DLH_S3_SECRET"),
        ({"key": "nobody"}, "DLH_S3_KEY"),
    ],
)
def test_wrong_credentials_name_the_setting_and_are_no_matter_of_time(object_server, wrong, says):
    with pytest.raises(BucketTrouble, match=says) as caught:
        Bucket(object_server.given("x", **wrong)).check()
    assert not caught.value.away and object_server.secret not in str(caught.value)


def test_a_bucket_that_is_not_there_is_named(object_server):
    given = object_server.given("x")
    object.__setattr__(given, "place", "elsewhere/x")
    with pytest.raises(BucketTrouble, match="no bucket elsewhere") as caught:
        Bucket(given).check()
    assert "DLH_S3_URL" in caught.value.step and not caught.value.away


def test_a_clock_that_is_off_is_named(object_server):
    skewed = ClientError({"Error": {"Code": "RequestTimeTooSkewed", "Message": "The difference ..."}}, "PutObject")
    with pytest.raises(BucketTrouble, match="clocks") as caught, Bucket(object_server.given("x"))._asked():
        raise PermissionError("The difference ...") from skewed
    assert not caught.value.away and "NTP" in caught.value.step


def test_a_server_that_is_away_is_told_as_such_and_asked_again_after_a_while(object_server, monkeypatch):
    made = Bucket(object_server.given("x", endpoint="http://127.0.0.1:9"))
    with pytest.raises(BucketTrouble, match="DLH_S3_ENDPOINT") as caught:
        made.has("0" * 64, 1)
    assert caught.value.away and not made.answers
    monkeypatch.setattr(client, "AWAY_S", 0.0)
    with pytest.raises(BucketTrouble):
        made.has("0" * 64, 1)
    assert made.answers


def test_what_speaks_no_s3_is_told_as_such(live_server, settings, object_server):
    with pytest.raises(BucketTrouble):
        Bucket(object_server.given("x", endpoint=live_server.url)).check()


def test_without_the_package_the_next_step_is_named(object_server, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(BucketTrouble, match=r"s3fs.*install"):
        Bucket(object_server.given("x")).check()

"""Uploads in parts that a killed process left in the object store."""

from __future__ import annotations

import logging
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError
from s3fs.errors import translate_boto_error

from harness.bucket import mirror
from harness.bucket.client import Bucket, blob_name
from harness.bucket.mirror import sweep
from harness.bucket.trouble import BucketTrouble


def cut_short(bucket):
    """Key of an upload that is begun and never finished."""
    key = f"{bucket.given.place}/{blob_name('a' * 64)}".partition("/")[2]
    bucket._fs.call_s3("create_multipart_upload", Bucket=bucket.given.bucket, Key=key)
    return key


def left(bucket):
    return [row["Key"] for row in bucket._uploads()]


def test_uploads_that_were_cut_short_are_ended_after_a_day_and_those_of_others_stay(bucket, object_server, monkeypatch):
    other = Bucket(object_server.given(uuid.uuid4().hex))
    ours, theirs = cut_short(bucket), cut_short(other)
    assert sweep(bucket) == 0 and left(bucket) == [ours]  # it may go on
    monkeypatch.setattr(mirror, "UPLOAD_AGE", timedelta(seconds=-60))
    assert sweep(bucket) == 1
    assert (left(bucket), left(other)) == ([], [theirs])
    assert sweep(bucket) == 0


def refusal(code, method="ListMultipartUploads"):
    """What s3fs raises for such an answer."""
    return translate_boto_error(ClientError({"Error": {"Code": code}}, method))


@pytest.mark.parametrize("code", ["AccessDenied", "NotImplemented", "NoSuchKey", "404", "InternalError", "Whatever"])
def test_a_server_that_does_not_let_uploads_be_listed_is_no_trouble(bucket, monkeypatch, code):
    def refused(*_args, **_more):
        raise refusal(code)

    monkeypatch.setattr(bucket._fs, "call_s3", refused)
    assert bucket.uploads_end(datetime.now(UTC)) == 0
    assert bucket.answers


def test_a_server_that_does_not_answer_is_trouble(bucket, monkeypatch):
    def silent(*_args, **_more):
        raise ConnectionClosedError(endpoint_url="http://localhost")

    monkeypatch.setattr(bucket._fs, "call_s3", silent)
    with pytest.raises(BucketTrouble):
        bucket.uploads_end(datetime.now(UTC))
    assert not bucket.answers


@pytest.mark.parametrize("code", ["NoSuchUpload", "AccessDenied", "NoSuchKey"])
def test_an_upload_that_cannot_be_ended_keeps_no_later_one(bucket, monkeypatch, caplog, code):
    for _ in range(3):
        cut_short(bucket)
    abort, tried = bucket._fs.abort_mpu, []

    def second_is_gone(*given):
        tried.append(given)
        if len(tried) == 2:
            raise refusal(code, "AbortMultipartUpload")
        abort(*given)

    monkeypatch.setattr(bucket._fs, "abort_mpu", second_is_gone)
    with caplog.at_level(logging.INFO):
        assert bucket.uploads_end(datetime.now(UTC) + timedelta(minutes=1)) == 2
    assert len(left(bucket)) == 1 and bucket.answers
    assert ("cannot be ended" in caplog.text) is (code != "NoSuchUpload")


def test_a_list_of_many_is_read_to_its_end_and_one_that_has_none_no_further(bucket, monkeypatch):
    asked = []

    def page(_method, **given):
        asked.append(given.get("KeyMarker"))
        name = f"k{len(asked)}"
        return {"Uploads": [{"Key": name}], "IsTruncated": len(asked) != 3, "NextKeyMarker": name}

    monkeypatch.setattr(bucket._fs, "call_s3", page)
    assert left(bucket) == ["k1", "k2", "k3"] and asked == [None, "k1", "k2"]
    assert len(left(bucket)) == 100

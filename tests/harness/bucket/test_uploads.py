"""Uploads in parts that a killed process left in the object store."""

from __future__ import annotations

import uuid
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError

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


@pytest.mark.parametrize(("code", "is_trouble"), [("AccessDenied", False), ("NotImplemented", False), ("Slow", True)])
def test_a_key_that_may_not_end_uploads_is_no_trouble(bucket, monkeypatch, code, is_trouble):
    def refused(*_args, **_more):
        raise PermissionError("no") from ClientError({"Error": {"Code": code}}, "ListMultipartUploads")

    monkeypatch.setattr(bucket._fs, "call_s3", refused)
    with pytest.raises(BucketTrouble) if is_trouble else nullcontext():
        assert bucket.uploads_end(datetime.now(UTC)) == 0
    assert bucket.answers is not is_trouble


def test_a_list_of_many_is_read_to_its_end_and_one_that_has_none_no_further(bucket, monkeypatch):
    asked = []

    def page(_method, **given):
        asked.append(given.get("KeyMarker"))
        name = f"k{len(asked)}"
        return {"Uploads": [{"Key": name}], "IsTruncated": len(asked) != 3, "NextKeyMarker": name}

    monkeypatch.setattr(bucket._fs, "call_s3", page)
    assert left(bucket) == ["k1", "k2", "k3"] and asked == [None, "k1", "k2"]
    assert len(left(bucket)) == 100

"""Storage by API: use, quotas, refusals of uploads, deleting for good."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from harness.storage.refresh import sizes_refresh
from tests.harness.api.conftest import API, TUS, metadata


def test_an_upload_above_the_quota_is_refused_before_its_first_byte(
    people: SimpleNamespace, bearer: Any, dataset: Any
) -> None:
    owner, admin = bearer(people.owner), bearer(people.admin, "admin")
    (row,) = owner.get(f"{API}/pool/storage").json()["items"]
    assert row["limit_bytes"] is None and row["used_bytes"] == row["dataset_bytes"] > 0
    limit = {"limit_bytes": row["used_bytes"] + 100}
    assert admin.put(f"{API}/pool/storage/birds", limit, content_type="application/json").status_code == 200
    named = metadata(filename="b.csv", project="birds")
    refused = owner.post(f"{API}/uploads", headers={**TUS, "Upload-Length": "101", "Upload-Metadata": named})
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (507, "storage_quota")
    assert error["details"] == {"project": "birds", "used_bytes": row["used_bytes"], "needed_bytes": 101, **limit}
    assert owner.get(f"{API}/uploads").json()["items"] == []
    assert admin.delete(f"{API}/pool/storage/birds").status_code == 200
    again = owner.post(f"{API}/uploads", headers={**TUS, "Upload-Length": "101", "Upload-Metadata": named})
    assert again.status_code == 201


def test_a_project_tells_what_is_large_and_what_may_go(people: SimpleNamespace, bearer: Any, job: Any) -> None:
    sizes_refresh()
    owner, viewer = bearer(people.owner), bearer(people.viewer)
    found = owner.get(f"{API}/projects/birds/storage").json()
    assert {item["kind"]: item["may_delete"] for item in found["items"]} == {"dataset": True, "job": True}
    assert not any(item["may_delete"] for item in viewer.get(f"{API}/projects/birds/storage").json()["items"])
    assert owner.post(f"{API}/jobs/{job.pk}/purge").status_code == 409
    owner.delete(f"{API}/jobs/{job.pk}")
    assert owner.post(f"{API}/jobs/{job.pk}/purge").status_code == 200
    kinds = [item["kind"] for item in owner.get(f"{API}/projects/birds/storage").json()["items"]]
    assert kinds == ["dataset"]
    assert owner.get(f"{API}/jobs/{job.pk}").status_code == 404

"""Storage by API: use, quotas, refusals of uploads, deleting for good."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from harness.jobs.control.sizing import sizes_refresh
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


def test_a_dataset_that_no_job_used_goes_at_once_where_that_is_asked_for(
    people: SimpleNamespace, bearer: Any, dataset: Any, job: Any, dataset_make: Any
) -> None:
    owner, unused = bearer(people.owner), dataset_make(people.owner, people.project)
    purge, at_once = f"{API}/datasets/{{}}/purge".format, {"at_once": True}
    assert owner.post(purge(unused.pk), {}, content_type="application/json").status_code == 409, "not in the trash"
    assert owner.post(purge(unused.pk), at_once, content_type="application/json").status_code == 200
    assert owner.get(f"{API}/datasets/{unused.pk}").status_code == 404
    kept = owner.post(purge(dataset.pk), at_once, content_type="application/json")
    assert (kept.status_code, kept.json()["error"]["message"]) == (409, "1 job used this dataset.")
    assert owner.get(f"{API}/datasets/{dataset.pk}").json()["deleted_at"] is None

"""What `dlh` says about the portal's disk, and how it gives some back."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.client.cli.storage import size_read
from harness.client.errors import BadInput
from harness.jobs.control.sizing import sizes_refresh
from tests.harness.client.conftest import Dlh


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("0", 0), ("10", 10), ("500MiB", 500 << 20), ("1.5 TiB", 3 << 39), ("20G", 20 << 30), ("2kb", 2048)],
)
def test_a_size_is_read_in_binary_units(text: str, size_bytes: int) -> None:
    assert size_read(text) == size_bytes


@pytest.mark.parametrize("text", ["", "many", "-1", "1e9", "5 XiB", "GiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        size_read(text)


def test_a_quota_is_set_shown_and_refuses_an_upload(
    dlh: Dlh, portal: SimpleNamespace, dataset: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert dlh("pool", "storage-quota", portal.project, "1KiB", "--json").code == 3
    with monkeypatch.context() as as_admin:
        as_admin.setenv("DLH_TOKEN", portal.token_of("admin"))
        assert "used up" not in dlh("pool", "storage-quota", portal.project, "1GiB").out
        said = dlh("pool", "storage-quota", portal.project, "1KiB").out
        assert "may take 1 KiB" in said and "its quota is used up" in said
    (row,) = dlh("pool", "storage", "--json").json
    assert (row["project"], row["limit_bytes"], row["is_over"]) == (portal.project, 1024, True)
    assert "1 KiB" in dlh("pool", "storage").out
    file = tmp_path / "more.csv"
    file.write_text("a,b\n1,2\n")
    refused = dlh("data", "add", str(file), "--no-wait", "--json")
    assert refused.code != 0 and refused.json["error"]["code"] == "storage_quota"
    assert "used up" in dlh("pool", "storage", portal.project).out


def test_jobs_and_datasets_are_deleted_for_good(dlh: Dlh, portal: SimpleNamespace, job: Any, dataset: Any) -> None:
    from harness.jobs.control.retention import jobs_purge

    sizes_refresh()
    refused = dlh("data", "rm", dataset.pk, "--forever", "--json").json["error"]
    assert (refused["code"], refused["message"]) == ("conflict", "1 job used this dataset.")
    assert dlh("data", "show", dataset.pk, "--json").json["deleted_at"] is None, "nothing has become of it"
    assert "in the trash" in dlh("jobs", "rm", job.pk).out
    assert "deleted for good" in dlh("jobs", "rm", job.pk, "--forever").out
    jobs_purge()
    assert dlh("data", "rm", dataset.pk, "--forever").code == 0
    assert dlh("pool", "storage", portal.project, "--json").json["items"] == []


def test_a_job_that_came_no_further_than_the_trash_is_told_to_be_there(
    dlh: Dlh, portal: SimpleNamespace, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.api.routes import storage
    from harness.errors import Unavailable

    def away(**_: Any) -> None:
        raise Unavailable("The database is away.", hint="Wait a minute.")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(storage, "job_purge", away)
        ended = dlh("jobs", "rm", job.pk, "--forever")
    assert ended.code == 4 and f"The database is away. {job.pk} is in the trash." in ended.err
    assert f"Wait a minute. `dlh jobs rm {job.pk} --forever` tries again." in ended.err
    assert "deleted for good" in dlh("jobs", "rm", job.pk, "--forever").out

"""What joined nodes may fetch from the store: programs and datasets, and nothing else."""

from __future__ import annotations

import json

import pytest
from django.conf import settings

from tests.harness.transfer.asking import API, bytes_of, caller, code, rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent", "quiet_broker")]


@pytest.fixture
def node(node_make):
    return caller(node_make("node-1"))


def test_a_program_and_a_dataset_are_listed_by_hash_and_served_by_range(node, job, stranger):
    program = f"jobs/{job.pk}/program"
    listed = {row["name"]: row for row in node.get(f"{API}/trees?folder={program}").json()["files"]}
    body = (settings.STORE.root / program / "train.py").read_bytes()
    assert listed["train.py"] == {"name": "train.py", **rows({"train.py": body})[0]}
    got = node.get(f"{API}/files?folder={program}&name=train.py", headers={"Range": "bytes=10-29"})
    assert (got.status_code, bytes_of(got)) == (206, body[10:30])
    packed = f"datasets/{job.dataset.sha256}/packed"
    names = {row["name"] for row in stranger.get(f"{API}/trees?folder={packed}").json()["files"]}
    assert {"profile.json", "table.parquet"} <= names and "thumbnails" not in names


def test_hashes_of_a_dataset_are_kept_and_those_of_a_changed_file_made_anew(node, job):
    folder = settings.STORE.dataset(job.dataset.sha256).packed
    address = f"{API}/trees?folder=datasets/{job.dataset.sha256}/packed"
    before = node.get(address).json()
    memo = folder.parent / "packed.tree.json"
    kept = json.loads(memo.read_text())
    kept[0]["sha256"] = "0" * 64
    memo.write_text(json.dumps(kept))
    assert node.get(address).json() != before  # it is read, not made again
    (folder / kept[0]["name"]).touch()
    assert node.get(address).json() == before


NO_FOLDERS = (
    "", ".", "..", "secrets", "jobs", "jobs/../jobs/x/program", "jobs/x/work", "jobs/x/program/..", "/etc",
    "uploads/x/program", "datasets/x/packed", "jobs/x%2f..%2fy/program", "jobs/x/program\x00", "jobs//program",
)  # fmt: skip
NO_FILES = ("../spec.yaml", "..", ".hidden", "", "a/b", "/etc/passwd", "x\x00", "nobody.py")


def refused_with(name):
    """What is no folder or file of ours looks like one that is not there; a NUL is told."""
    return (422, "invalid") if "\x00" in name else (404, "not_found")


def test_no_other_folder_is_served(node):
    for folder in NO_FOLDERS:
        for kind, name in (("trees", {}), ("files", {"name": "train.py"})):
            answer = node.get(f"{API}/{kind}", query_params={"folder": folder, **name})
            assert (answer.status_code, code(answer)) == refused_with(folder), folder


def test_no_other_file_is_served(node, job):
    for name in NO_FILES:
        answer = node.get(f"{API}/files", query_params={"folder": f"jobs/{job.pk}/program", "name": name})
        assert (answer.status_code, code(answer)) == refused_with(name), name


def test_a_link_in_a_program_folder_is_neither_listed_nor_served(node, job, tmp_path):
    (tmp_path / "secret").write_text("secret")
    program = settings.STORE.job(job.pk).program
    (program / "linked.py").symlink_to(tmp_path / "secret")
    listed = node.get(f"{API}/trees?folder=jobs/{job.pk}/program").json()["files"]
    assert "linked.py" not in {row["name"] for row in listed}
    assert node.get(f"{API}/files?folder=jobs/{job.pk}/program&name=linked.py").status_code == 404

"""A node that sees no folder, and a store that is copied to a real object store: bytes go there and come from there."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest

from harness.bucket.client import Bucket
from harness.bucket.trouble import BucketTrouble
from tests.e2e.cache_node import SPEC, lose, second_node, words_of
from tests.e2e.people import dlh
from tests.e2e.stack import (
    END_TIMEOUT_S,
    JOB_TIMEOUT_S,
    command_of,
    items,
    processes_of,
    wait_for,
)
from worker.transfer.signed import SIGNED_BYTES_MIN

pytestmark = pytest.mark.stack


@pytest.fixture
def objects(object_server):
    """The object store as the test looks into it."""
    return Bucket(object_server.given("e2e"))


@pytest.fixture
def first(make_stack, object_server, tmp_path):
    """A stack whose secret comes from a file."""
    given = object_server.environment("e2e")
    (tmp_path / "secret").write_text(given.pop("DLH_S3_SECRET"))
    given["DLH_S3_SECRET_FILE"] = str(tmp_path / "secret")
    return make_stack(DLH_NODE_NAME="first", DLH_NODE_ADDRESS="127.0.0.2", **given).wait_running()


@pytest.fixture
def second(first, tmp_path):
    """The home of a node that has joined with a cache; the first one takes no more jobs."""
    with second_node(first, tmp_path) as home:
        yield home


def _listed(objects, unit):
    """Hash by path, of what the object store has of it; empty while it has nothing, or is too busy to say.

    This server tells the size before it opens the bytes: of a list that is exchanged in between it sends the new one up
    to the length of the old. S3 itself does not.
    """
    try:
        return {row["path"]: row["sha256"] for row in json.loads(objects.text_get(f"units/{unit}.json"))["files"]}
    except (FileNotFoundError, BucketTrouble, json.JSONDecodeError):
        return {}


def _contents(folder):
    """Bytes by path below `folder` of what stays; None where a file went while it was read."""
    try:
        found = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    except FileNotFoundError:
        return None
    passing = {"incoming", "fence"}
    return {
        path: body for path, body in found.items()
        if path.parts[0] not in passing and not any(part.startswith(".") for part in path.parts)
    }  # fmt: skip


def _is_copied(folder, there):
    """Whether all of a job's files are listed in the object store as they are."""
    found = _contents(folder)
    return bool(found) and all(there.get(str(path)) == hashlib.sha256(body).hexdigest() for path, body in found.items())


def test_a_run_lives_through_the_object_store_goes_on_elsewhere_and_a_lost_folder_comes_back(
    first, second, objects, tmp_path
):
    from harness.datasets.samples import sample_file

    assert "object store: s3://pool/e2e answers" in first.text()
    for process in [*processes_of(first.home), *processes_of(second)]:
        if "worker.agent" in command_of(process).split():
            assert not [name for name in process.environ() if name.startswith("DLH_S3_")]
    digits = first.upload(sample_file("digits", tmp_path), "digits")
    content = next((first.home / "store" / "datasets").iterdir()).name
    wait_for(
        lambda: "packed/images.parquet" in _listed(objects, f"datasets/{content}"), timeout_s=END_TIMEOUT_S,
        what="the data are in the object store",
    )  # fmt: skip

    job = first.job_submit(digits, {**SPEC, "training": {**SPEC["training"], "epochs": 500}})
    first.job_wait_checkpoint(job)
    assert "Placed on second" in words_of(first, job)
    assert (second / "cache" / "contents").is_dir()
    assert "name=images.parquet" not in (first.home / "logs" / "portal.log").read_text()  # it came past the portal

    def past_the_portal():
        """Whether a checkpoint came whole of which the portal took the list and never the large state."""
        portal = (first.home / "logs" / "portal.log").read_text()
        names = [row["name"] for row in items(first.get(f"/jobs/{job}/checkpoints"))]
        sent = [name for name in names if f"name={name}&file=MANIFEST.json" in portal]
        return f"/runs/{job}/1/uploads" in portal and any(f"name={name}&file=state" not in portal for name in sent)

    wait_for(past_the_portal, timeout_s=END_TIMEOUT_S, what="a checkpoint comes by the object store")
    lose(second)  # and its cache with it
    first.post("/pool/nodes/first/undrain")
    wait_for(
        lambda: "Continuing from checkpoint step-" in words_of(first, job), timeout_s=JOB_TIMEOUT_S,
        what="the first node goes on where the second was",
    )  # fmt: skip
    first.post(f"/jobs/{job}/cancel")
    wait_for(lambda: first.job(job)["state"] == "cancelled", timeout_s=END_TIMEOUT_S, what="it is cancelled")

    folder = first.home / "store" / "jobs" / job

    wait_for(
        lambda: _is_copied(folder, _listed(objects, f"jobs/{job}")), timeout_s=END_TIMEOUT_S,
        what="all of the job is in the object store",
    )  # fmt: skip
    before = _contents(folder / "work" / "checkpoints")
    assert max(len(body) for body in before.values()) > SIGNED_BYTES_MIN
    first.stop()
    shutil.rmtree(first.home / "store")
    done = dlh(first.environment, "store", "pull", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["missing"] == 0, done.stderr
    assert before == _contents(folder / "work" / "checkpoints")

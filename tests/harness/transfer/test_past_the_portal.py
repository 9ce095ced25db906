"""The short cut of nodes through a real object store: taken where it works, left where it does not, never believed."""

from __future__ import annotations

import hashlib
import io
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from django.conf import settings

from harness.bucket.client import blob_name
from harness.bucket.units import memo_file, unit_push
from harness.bucket.wanted import units_wanted, wanted_done
from harness.jobs.models import Checkpoint, Job
from harness.transfer import lending, returns
from tests.harness.jobs.helpers import place_now
from tests.harness.transfer.conftest import SECRET
from tests.waiting import wait_for
from worker.events import Event, EventKind
from worker.transfer import fetch, signed

web = httpx.Client(timeout=120, limits=httpx.Limits(max_keepalive_connections=0))
STATE = os.urandom(200_000)


@pytest.fixture
def attempt(bucket, node, job):
    """With a table that is larger than what goes by the portal anyway."""
    table = settings.STORE.dataset(job.dataset.sha256).packed / "extra.bin"
    table.write_bytes(STATE)
    yield place_now(job)
    table.unlink()


@pytest.fixture
def pieces(monkeypatch):
    """Names of files whose bytes were sent by the portal."""
    sent, write = [], returns.piece_write

    def noted(sender, *, file, **more):
        sent.append(file)
        return write(sender, file=file, **more)

    monkeypatch.setattr(returns, "piece_write", noted)
    return sent


def dataset_push(bucket, job):
    unit_push(bucket, f"datasets/{job.dataset.sha256}", at_rest=True)


def bring(depot, plan, here):
    brought = depot.run_bring(plan, here, first=True, stopped=lambda: False)
    brought.release()
    return brought


def checkpoint(folder: Path, name: str, body: bytes = STATE):
    (folder / name).mkdir(parents=True)
    (folder / name / "state.pt").write_bytes(body)
    (folder / name / "MANIFEST.json").write_text(json.dumps({"files": {"state.pt": {"bytes": len(body)}}}))


def save(returner, plan, here, name="step-00000010"):
    """Return one checkpoint; wait until the store has it."""
    checkpoint(here.checkpoints, name)
    data = {"name": name, "step": 10, "removed": []}
    returner.hold([Event(kind=EventKind.CHECKPOINT, job_id=plan.job_id, token=1, rank=0, seq=1, time_s=1.0, data=data)])
    returner.start()
    wait_for(lambda: not returner.kept.empty())


def whole(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def sha(body):
    return hashlib.sha256(body).hexdigest()


def test_data_comes_from_the_object_store_and_the_rest_by_the_portal(bucket, depot, plan, here, job):
    dataset_push(bucket, job)
    brought = bring(depot, plan, here)
    assert (brought.dataset.path / "extra.bin").read_bytes() == STATE
    assert len(STATE) <= brought.signed_bytes < brought.fetched_bytes
    assert "of it from the object store" in brought.told("node-1")["message"]
    assert bring(depot, plan, here).fetched_bytes == 0


def test_what_the_object_store_does_not_have_comes_by_the_portal(depot, plan, here):
    brought = bring(depot, plan, here)
    assert brought.signed_bytes == 0 and (brought.dataset.path / "extra.bin").read_bytes() == STATE


def test_a_flipped_byte_in_the_object_store_is_found_and_the_portal_asked(bucket, depot, plan, here, job):
    dataset_push(bucket, job)
    bucket._fs.pipe_file(bucket._key(blob_name(sha(STATE))), STATE[:-1] + bytes([STATE[-1] ^ 1]))
    assert (bring(depot, plan, here).dataset.path / "extra.bin").read_bytes() == STATE


def test_a_server_that_is_killed_in_the_middle_costs_no_run(bucket, depot, plan, here, job, object_server, monkeypatch):
    monkeypatch.setattr(fetch, "CHUNK_BYTES", 1 << 14)
    dataset_push(bucket, job)
    span, asked = signed.Signed.span, []

    def killed_after_two(self, address, start, stop):
        asked.append(start)
        if len(asked) == 3:
            object_server.kill()
        return span(self, address, start, stop)

    monkeypatch.setattr(signed.Signed, "span", killed_after_two)
    try:
        brought = bring(replace(depot, manner=fetch.Manner(connections=1)), plan, here)
    finally:
        object_server.start()
    assert (brought.dataset.path / "extra.bin").read_bytes() == STATE
    assert brought.signed_bytes == 2 * fetch.CHUNK_BYTES
    assert len(asked) == 2 + signed.FAILURES_MAX  # then it is let be


def test_a_checkpoint_goes_through_the_object_store_and_counts_only_once_the_store_has_it(
    bucket, returner, plan, here, store, pieces
):
    save(returner, plan, here)
    assert whole(store.checkpoints / "step-00000010") == whole(here.checkpoints / "step-00000010")
    assert pieces == ["MANIFEST.json"]
    assert bucket.has(sha(STATE), len(STATE)) and bucket.names("incoming") == {}


def test_the_next_attempt_gets_its_checkpoint_from_there(bucket, depot, plan, here, store):
    checkpoint(store.checkpoints, "step-00000010")
    Checkpoint.objects.create(job_id=plan.job_id, name="step-00000010", step=10, epoch=1.0, token=1)
    unit_push(bucket, f"jobs/{plan.job_id}", at_rest=False)
    brought = bring(depot, plan, here)
    assert whole(here.checkpoints / "step-00000010") == whole(store.checkpoints / "step-00000010")
    assert brought.signed_bytes == 2 * len(STATE)  # the data have a file with these bytes, too


def test_what_arrived_otherwise_than_named_is_refused_and_sent_by_the_portal(
    bucket, returner, plan, here, store, pieces, monkeypatch
):
    put = signed.Signed.put

    def flipped(self, address, stream, size_bytes):
        put(self, address, stream, size_bytes)
        body = bytearray(STATE)
        body[7] ^= 1
        assert web.put(address, content=bytes(body)).status_code == 200

    monkeypatch.setattr(signed.Signed, "put", flipped)
    save(returner, plan, here)
    assert whole(store.checkpoints / "step-00000010")["state.pt"] == STATE
    assert "state.pt" in pieces and not bucket.has(sha(STATE), len(STATE))


@pytest.mark.parametrize("there_before", [False, True])
def test_what_is_exchanged_after_it_was_checked_becomes_no_blob_and_never_one_over_a_good_one(
    bucket, returner, plan, here, store, monkeypatch, tmp_path, there_before
):
    if there_before:
        bucket.put(io.BytesIO(STATE), sha(STATE), len(STATE))
    take = lending.uploads_take

    def then_exchanged(sender, folder, tree):
        taken = take(sender, folder, tree)
        for name in bucket.names("incoming"):
            bucket._fs.pipe_file(bucket._key(name), b"x" * len(STATE))
        return taken

    monkeypatch.setattr(lending, "uploads_take", then_exchanged)
    save(returner, plan, here)
    assert whole(store.checkpoints / "step-00000010")["state.pt"] == STATE
    assert bucket.has(sha(STATE), len(STATE)) == there_before
    if there_before:
        bucket.get(blob_name(sha(STATE)), tmp_path / "blob")
        assert (tmp_path / "blob").read_bytes() == STATE and bucket.names("incoming") == {}


def test_a_server_that_is_killed_before_the_commit_costs_no_checkpoint(
    returner, plan, here, store, pieces, object_server, monkeypatch
):
    put = signed.Signed.put

    def then_killed(self, address, stream, size_bytes):
        put(self, address, stream, size_bytes)
        object_server.kill()

    monkeypatch.setattr(signed.Signed, "put", then_killed)
    try:
        save(returner, plan, here)
    finally:
        object_server.start()
    assert whole(store.checkpoints / "step-00000010")["state.pt"] == STATE
    assert "state.pt" in pieces


def test_a_server_that_is_away_all_along_costs_no_checkpoint(
    bucket, returner, plan, here, store, pieces, object_server
):
    object_server.kill()
    try:
        save(returner, plan, here)
    finally:
        object_server.start()
    assert whole(store.checkpoints / "step-00000010")["state.pt"] == STATE
    assert "state.pt" in pieces


def test_wrong_credentials_of_the_portal_cost_no_checkpoint(
    returner, plan, here, store, pieces, object_server, settings
):
    settings.S3 = object_server.given("x", secret="not-the-secret")
    save(returner, plan, here)
    assert whole(store.checkpoints / "step-00000010")["state.pt"] == STATE and "state.pt" in pieces


def test_an_old_attempt_gets_no_address(attempt, live_server):
    address = f"{live_server.url}/api/v1/node/runs/{attempt.job_id}/{attempt.number}/uploads"
    files = [{"name": "state.pt", "bytes": len(STATE), "sha256": sha(STATE)}]
    body = {"kind": "checkpoint", "name": "step-00000010", "files": files}
    headers = {"Authorization": f"Bearer {SECRET}"}
    given = web.post(address, json=body, headers=headers).json()["uploads"]
    assert [row["name"] for row in given] == ["state.pt"] and settings.S3.secret not in str(given)
    Job.objects.filter(pk=attempt.job_id).update(token=2)
    assert web.post(address, json=body, headers=headers).json()["error"]["code"] == "stale_attempt"


def test_no_more_addresses_than_the_run_may_have_disk(attempt, live_server):
    address = f"{live_server.url}/api/v1/node/runs/{attempt.job_id}/{attempt.number}/uploads"
    files = [{"name": "state.pt", "bytes": 1 << 50, "sha256": sha(STATE)}]
    body = {"kind": "checkpoint", "name": "step-00000010", "files": files}
    answer = web.post(address, json=body, headers={"Authorization": f"Bearer {SECRET}"})
    assert answer.json()["error"]["code"] == "too_large"


def test_a_node_waits_for_a_file_that_the_folder_lost_until_it_is_back(bucket, depot, plan, here, job):
    unit = f"datasets/{job.dataset.sha256}"
    lost = settings.STORE.dataset(job.dataset.sha256).packed / "extra.bin"
    unit_push(bucket, unit, at_rest=True, final=True)
    lost.unlink()
    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(bring, depot, plan, here)
        wait_for(lambda: units_wanted() == {unit})
        assert not going.done()
        unit_push(bucket, unit, at_rest=True, final=True)
        wanted_done(unit)
        going.result(120)
    memo_file(unit).unlink()
    assert lost.read_bytes() == STATE
    assert any(path.read_bytes() == STATE for path in depot.cache.root.rglob("extra.bin"))

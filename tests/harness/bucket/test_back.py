"""Files that the folder lost by accident come back when they are wanted; what was removed on purpose does not."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from harness.bucket.client import blob_name
from harness.bucket.mirror import mirror_pass
from harness.bucket.trouble import BucketTrouble
from harness.bucket.units import unit_forget, unit_keep
from harness.bucket.wanted import units_wanted, wanted_check
from harness.errors import NotFound, Unavailable
from harness.jobs.control.retention import jobs_purge
from harness.jobs.models import Checkpoint, Job
from harness.transfer.trees import tree_get
from worker.states import JobState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tasks_sent")]


@pytest.fixture
def copied(finished):
    assert mirror_pass()
    return finished


@pytest.fixture
def weights(copied, store):
    return store.job(copied.pk).results / "model.safetensors"


@pytest.fixture
def owner(people):
    client = Client()
    client.force_login(people.owner)
    return client


def listed(bucket, unit):
    return {row["path"]: row for row in json.loads(bucket.text_get(f"units/{unit}.json"))["files"]}


def move(job, state):
    Job.objects.filter(pk=job.pk).update(state=str(state))


def test_weights_that_were_lost_are_told_to_be_on_their_way_and_then_are_there(copied, weights, owner):
    body = weights.read_bytes()
    weights.unlink()
    place = f"/api/v1/jobs/{copied.pk}/weights"
    refused = owner.get(place)
    assert refused.status_code == 503 and "again" in refused.json()["error"]["hint"]
    assert mirror_pass()
    answer = owner.get(place)
    assert answer.status_code == 200 and b"".join(answer.streaming_content) == body == weights.read_bytes()
    assert units_wanted() == set()


def test_a_checkpoint_that_was_lost_comes_back_for_the_page_that_sends_it(copied, store, owner):
    Checkpoint.objects.create(job=copied, name="step-00000010", step=10, epoch=1.0, size_bytes=5, token=1)
    folder = store.job(copied.pk).checkpoints / "step-00000010"
    place = f"/jobs/{copied.pk}/checkpoints/step-00000010/state.pt"
    assert owner.get(place).status_code == 200
    shutil.rmtree(folder)
    page = owner.get(place)
    assert page.status_code == 503 and "being restored" in page.content.decode()
    assert mirror_pass() and owner.get(place).status_code == 200


def test_a_node_is_not_given_what_is_left_of_a_dataset_for_the_whole(copied, store, node_make):
    key = copied.dataset.sha256
    folder = f"datasets/{key}/packed"
    node = node_make("node-1")
    before = tree_get(folder, node)
    (store.dataset(key).packed / "table.parquet").unlink()
    with pytest.raises(Unavailable):
        tree_get(folder, node)
    assert mirror_pass() and tree_get(folder, node) == before
    shutil.rmtree(store.dataset(key).root)
    with pytest.raises(Unavailable):
        tree_get(folder, node)
    assert mirror_pass() and tree_get(folder, node) == before


def test_rows_of_a_dataset_that_was_lost_come_back(copied, store, owner):
    table = store.dataset(copied.dataset.sha256).packed / "table.parquet"
    table.unlink()
    place = f"/api/v1/datasets/{copied.dataset.pk}/rows"
    assert owner.get(place).status_code == 503
    assert mirror_pass() and owner.get(place).status_code == 200


def test_a_prediction_waits_for_what_it_needs(copied, weights, owner, store, node_make):
    node_make("node-1")
    place, body = f"/api/v1/jobs/{copied.pk}/predictions", json.dumps({"records": [{"length": 1}]})
    for lost in (weights, store.dataset(copied.dataset.sha256).packed / "table.parquet"):
        lost.unlink()
        assert owner.post(place, body, content_type="application/json").json()["error"]["code"] == "unavailable"
        assert mirror_pass() and lost.exists()


def test_a_pass_that_finds_a_file_missing_does_not_drop_it_from_the_copy(copied, weights, bucket):
    before = listed(bucket, f"jobs/{copied.pk}")
    weights.unlink()
    assert mirror_pass()
    assert weights.exists() and listed(bucket, f"jobs/{copied.pk}") == before


def test_many_who_ask_at_once_fetch_a_file_once(copied, weights, bucket, monkeypatch):
    got, get = [], bucket.get
    monkeypatch.setattr(bucket, "get", lambda name, target: (got.append(name), get(name, target)))
    weights.unlink()

    def ask(_):
        with pytest.raises(Unavailable):
            wanted_check(f"jobs/{copied.pk}", "work/results/model.safetensors")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(16)))
    assert got == []  # nobody's request goes over the network
    assert mirror_pass() and mirror_pass() and len(got) == 1
    wanted_check(f"jobs/{copied.pk}", "work/results/model.safetensors")


def test_an_object_store_that_is_away_keeps_it_wanted_until_it_is_back(copied, weights, bucket, monkeypatch):
    weights.unlink()
    get = bucket.get

    def away(name, target):
        raise BucketTrouble("away", "wait", away=True)

    monkeypatch.setattr(bucket, "get", away)
    with pytest.raises(Unavailable):
        wanted_check(f"jobs/{copied.pk}", "work/results/model.safetensors")
    assert not mirror_pass() and units_wanted() == {f"jobs/{copied.pk}"}
    monkeypatch.setattr(bucket, "get", get)
    assert mirror_pass() and weights.exists()


@pytest.mark.parametrize("damage", ["flipped", "gone"])
def test_what_the_object_store_does_not_have_either_is_lost_and_no_longer_promised(
    copied, weights, bucket, owner, damage
):
    row = listed(bucket, f"jobs/{copied.pk}")["work/results/model.safetensors"]
    if damage == "gone":
        bucket.remove(blob_name(row["sha256"]))
    else:
        bucket.text_put(blob_name(row["sha256"]), "w" * 99_999 + "x")
    weights.unlink()
    place = f"/api/v1/jobs/{copied.pk}/weights"
    assert owner.get(place).status_code == 503
    assert mirror_pass() and not weights.exists()
    assert owner.get(place).status_code == 404
    assert "work/results/model.safetensors" not in listed(bucket, f"jobs/{copied.pk}")


def test_a_checkpoint_that_the_run_removed_before_its_end_does_not_come_back(finished, bucket, store):
    move(finished, JobState.RUNNING)
    assert mirror_pass()
    gone = "work/checkpoints/step-00000010/state.pt"
    assert gone in listed(bucket, f"jobs/{finished.pk}")
    shutil.rmtree(store.job(finished.pk).checkpoints / "step-00000010")
    move(finished, JobState.SUCCEEDED)
    wanted_check(f"jobs/{finished.pk}", "work/checkpoints/step-00000010")
    assert mirror_pass() and gone not in listed(bucket, f"jobs/{finished.pk}")
    assert mirror_pass() and not (store.job(finished.pk).root / gone).exists()


@pytest.mark.parametrize("state", [JobState.DRAFT, JobState.PAUSED, JobState.FAILED, JobState.CANCELLED])
def test_of_a_job_that_may_go_on_nothing_is_missed(finished, bucket, store, state):
    move(finished, state)
    assert mirror_pass()
    (store.job(finished.pk).program / "model.py").unlink()
    wanted_check(f"jobs/{finished.pk}", "program")
    assert mirror_pass()
    assert not (store.job(finished.pk).program / "model.py").exists()
    assert "program/model.py" not in listed(bucket, f"jobs/{finished.pk}")


def test_what_programs_remove_while_they_predict_is_not_missed(copied, store):
    half = store.job(copied.pk).prediction("p1") / "half.json"
    half.parent.mkdir(parents=True)
    half.write_text("{}")
    assert mirror_pass()
    half.unlink()
    assert mirror_pass() and not half.exists()


def test_a_job_that_is_deleted_for_good_does_not_come_back(copied, store, bucket, monkeypatch):
    """Not even if a pass is made in the midst of it, and somebody had wanted it."""
    from harness.jobs.control import retention

    folder, remove = store.job(copied.pk).root, retention.tree_remove
    (folder / "work" / "results" / "model.safetensors").unlink()
    with pytest.raises(Unavailable):
        wanted_check(f"jobs/{copied.pk}", "work/results/model.safetensors")

    def slowly(root):
        shutil.rmtree(root / "work")
        mirror_pass()
        assert not (root / "work").exists()
        remove(root)

    monkeypatch.setattr(retention, "tree_remove", slowly)
    Job.objects.filter(pk=copied.pk).update(deleted_at=timezone.now() - timedelta(days=400))
    assert jobs_purge() == 1
    assert mirror_pass() and not folder.exists()
    assert f"units/jobs/{copied.pk}.json" not in bucket.names("units") and units_wanted() == set()


def test_what_is_on_its_way_while_its_job_is_deleted_goes_again(copied, weights, store, bucket, monkeypatch):
    weights.unlink()
    folder, get = store.job(copied.pk).root, bucket.get

    def overtaken(name, target):
        get(name, target)
        unit_forget(f"jobs/{copied.pk}")
        shutil.rmtree(folder)

    monkeypatch.setattr(bucket, "get", overtaken)
    assert mirror_pass() and not folder.exists() and store.jobs.exists()
    Job.objects.all().delete()
    assert mirror_pass() and f"units/jobs/{copied.pk}.json" not in bucket.names("units")


def test_a_dataset_that_is_being_removed_does_not_come_back_and_one_that_came_again_misses_nothing(
    copied, store, node_make
):
    key = copied.dataset.sha256
    unit_forget(f"datasets/{key}")
    shutil.rmtree(store.dataset(key).packed)
    with pytest.raises(NotFound):
        tree_get(f"datasets/{key}/packed", node_make("node-1"))
    assert mirror_pass() and not store.dataset(key).packed.exists()
    unit_keep(f"datasets/{key}")
    assert mirror_pass() and not store.dataset(key).packed.exists()


def test_a_full_disk_keeps_it_wanted(copied, weights, settings):
    weights.unlink()
    with pytest.raises(Unavailable):
        wanted_check(f"jobs/{copied.pk}", "work/results/model.safetensors")
    settings.DISK_RESERVE_BYTES, before = 1 << 60, settings.DISK_RESERVE_BYTES
    assert not mirror_pass() and not weights.exists() and units_wanted()
    settings.DISK_RESERVE_BYTES = before
    assert mirror_pass() and weights.exists()


def test_without_an_object_store_what_is_missing_is_missing(copied, weights, settings, owner, store):
    weights.unlink()
    settings.S3 = None
    assert owner.get(f"/api/v1/jobs/{copied.pk}/weights").status_code == 404
    assert not (store.bucket / "wanted").exists()


def test_what_a_killed_process_was_bringing_back_goes_with_the_next_pass(copied, store):
    draft = store.bucket / ".pull-0123456789ab"
    draft.write_bytes(b"half of it")
    assert mirror_pass()
    assert not draft.exists()

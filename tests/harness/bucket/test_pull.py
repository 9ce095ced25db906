"""What was lost comes back from the object store: as it was, and nothing else."""

from __future__ import annotations

import shutil

import pytest

from harness.bucket import mirror
from harness.bucket.client import blob_name
from harness.bucket.mirror import mirror_pass
from harness.bucket.pull import pull
from harness.bucket.state import state_read
from harness.bucket.trouble import BucketTrouble
from tests.harness.bucket.copies import listed, tree

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tasks_sent")]


def test_a_folder_that_was_lost_comes_back_as_it_was(finished, bucket, store):
    assert mirror_pass()
    before = tree(store.root)
    assert {"work/results/model.safetensors", "work/results/deep/picture.png"} <= set(
        listed(bucket, f"jobs/{finished.pk}")
    )
    shutil.rmtree(store.root)
    told = pull(bucket)
    assert tree(store.root) == before and told.missing == 0 and told.files == len(before)
    assert mirror_pass()
    assert pull(bucket).files == 0


def test_a_pull_that_was_cut_short_is_not_copied_back(finished, bucket, store, monkeypatch):
    assert mirror_pass()
    before = bucket.text_get(f"units/jobs/{finished.pk}.json")
    shutil.rmtree(store.root)
    get, left = bucket.get, [3]

    def get_some(name, target):
        left[0] -= 1
        if left[0] < 0:
            raise BucketTrouble("away", "wait", away=True)
        get(name, target)

    monkeypatch.setattr(bucket, "get", get_some)
    with pytest.raises(BucketTrouble):
        pull(bucket)
    assert not mirror_pass() and "pull" in state_read().trouble
    monkeypatch.setattr(bucket, "get", get)
    assert pull(bucket).missing == 0 and mirror_pass()
    assert bucket.text_get(f"units/jobs/{finished.pk}.json") == before


def test_a_copy_and_a_pull_say_how_many_bytes_are_done(finished, bucket, store):
    heard = []

    def tell(*told):
        heard.append(told)

    assert mirror_pass(tell)
    size = sum(len(body) for body in tree(store.root).values())
    assert heard[0] == ("Copying the store", 0, size) and heard[-1] == ("Copying the store", size, size)
    assert [done for _, done, _ in heard] == sorted(done for _, done, _ in heard) and len(heard) > 4
    heard.clear()
    shutil.rmtree(store.jobs)
    told = pull(bucket, tell)
    brought = [row for row in heard if row[0] == "Bringing files back"]
    assert brought[0][1:] == (0, told.bytes) and len(brought) == told.files
    assert heard[0][0] == "Reading what there is"


def test_a_pull_that_never_began_does_not_stop_the_copying(finished, bucket, store):
    assert mirror_pass()
    ours = bucket.text_get(mirror.MARK)
    bucket.text_put(mirror.MARK, "another")
    with pytest.raises(BucketTrouble, match="another store"):
        pull(bucket)
    bucket.text_put(mirror.MARK, ours)
    assert mirror_pass()


def test_a_flipped_byte_in_the_object_store_is_found_and_nothing_of_it_comes_back(finished, bucket, store):
    assert mirror_pass()
    weights = store.job(finished.pk).results / "model.safetensors"
    row = listed(bucket, f"jobs/{finished.pk}")["work/results/model.safetensors"]
    weights.unlink()
    bucket.text_put(blob_name(row["sha256"]), "w" * 99_999 + "x")
    told = pull(bucket)
    assert (told.files, told.missing) == (0, 1) and not weights.exists()
    assert not [path for path in store.bucket.iterdir() if path.name.startswith(".pull")]


def test_what_comes_back_follows_no_link(finished, bucket, store, tmp_path):
    assert mirror_pass()
    results = store.job(finished.pk).results
    shutil.rmtree(results)
    (tmp_path / "outside").mkdir()
    results.symlink_to(tmp_path / "outside")
    assert pull(bucket).missing > 0 and not list((tmp_path / "outside").iterdir())

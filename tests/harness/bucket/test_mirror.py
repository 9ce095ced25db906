"""The copy in the object store: whole, and of this store alone."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import shutil
import time
import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from harness.bucket import files, mirror, units
from harness.bucket.client import blob_name, bucket_get
from harness.bucket.mirror import mirror_pass, sweep
from harness.bucket.state import state_read
from harness.bucket.units import unit_forget, unit_push
from harness.datasets import purging
from harness.datasets.content import content_place
from harness.jobs.control.copied import jobs_due
from harness.jobs.models import Job
from tests.harness.bucket.copies import listed
from tests.waiting import wait_for
from worker.states import JobState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tasks_sent")]


@pytest.mark.parametrize("is_final", [True, False])
def test_a_folder_that_a_disk_does_not_give_now_is_not_taken_for_an_empty_one(
    finished, bucket, store, monkeypatch, is_final
):
    if not is_final:
        Job.objects.filter(pk=finished.pk).update(state=str(JobState.FAILED))
    assert mirror_pass()
    before, scanned = listed(bucket, f"jobs/{finished.pk}"), os.scandir

    def failing(folder):
        if str(folder).endswith("work/results"):
            raise OSError(errno.EIO, "Input/output error", str(folder))
        return scanned(folder)

    monkeypatch.setattr(files.os, "scandir", failing)
    assert not mirror_pass()
    assert listed(bucket, f"jobs/{finished.pk}") == before
    monkeypatch.undo()
    assert mirror_pass() and listed(bucket, f"jobs/{finished.pk}") == before


def test_a_job_whose_folder_a_disk_does_not_give_keeps_no_other_from_being_copied(finished, bucket, store, monkeypatch):
    unit, looked_at = f"jobs/{finished.pk}", pathlib.Path.stat

    def failing(path, **how):
        if path.name == finished.pk:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return looked_at(path, **how)

    with monkeypatch.context() as patched:
        patched.setattr(pathlib.Path, "stat", failing)
        assert [due.unit for due in jobs_due(time.time(), set())] == [unit]
        unit_forget(unit)
        mirror_pass()
    assert listed(bucket, f"datasets/{finished.dataset.sha256}") and units.is_forgotten(unit)


def test_what_is_no_dataset_among_the_datasets_is_not_copied_and_keeps_nothing_from_it(finished, bucket, store):
    (store.datasets / "lost+found").mkdir(parents=True)
    for name in ("a note.txt", "notes.txt", "README.md"):
        (store.datasets / name).write_text("of an admin")
    assert mirror_pass()
    assert listed(bucket, f"jobs/{finished.pk}")
    of_data = {name for name in bucket.names("units") if name.startswith("units/datasets/")}
    assert of_data == {f"units/datasets/{finished.dataset.sha256}.json"}


def test_a_second_pass_puts_nothing_and_a_changed_file_is_put_alone(finished, bucket, store, monkeypatch):
    assert mirror_pass()
    put = []
    made = bucket.put
    monkeypatch.setattr(bucket, "put", lambda stream, sha256, size: (put.append(size), made(stream, sha256, size)))
    assert mirror_pass() and put == []
    store.job(finished.pk).rank_log(1, 0).write_bytes(b"another line\n")
    assert mirror_pass() and put == [13]


def test_a_dataset_that_a_pass_found_unchanged_is_not_due_again(finished, bucket, store):
    folder = store.dataset(finished.dataset.sha256).root
    memo = units.memo_file(f"datasets/{folder.name}")
    assert mirror_pass()
    past_s = time.time() - 2 * mirror.MARGIN_S
    for path in (folder, memo):
        os.utime(path, (past_s, past_s))
    assert [*mirror._datasets_due(set())] == [(f"datasets/{folder.name}", True, True)]
    assert mirror_pass() and [*mirror._datasets_due(set())] == []


def test_while_a_run_goes_on_only_program_and_checkpoints_are_copied(finished, bucket, store):
    unit = f"jobs/{finished.pk}"
    Job.objects.filter(pk=finished.pk).update(state=str(JobState.RUNNING), finished_at=None)
    assert mirror_pass()
    assert {path.split("/")[0] for path in listed(bucket, unit)} == {"program", "generated", "work"}
    assert not any(path.startswith("work/results") for path in listed(bucket, unit))
    assert "work/checkpoints/step-00000010/state.pt" in listed(bucket, unit)
    Job.objects.filter(pk=finished.pk).update(state=str(JobState.SUCCEEDED), finished_at=timezone.now())
    assert mirror_pass() and "work/results/model.safetensors" in listed(bucket, unit)
    shutil.rmtree(store.job(finished.pk).checkpoints)
    Job.objects.filter(pk=finished.pk).update(state=str(JobState.RUNNING))
    assert mirror_pass()
    now = listed(bucket, unit)
    assert "work/results/model.safetensors" in now and "work/checkpoints/step-00000010/state.pt" not in now


def test_an_old_job_is_looked_at_again_only_if_it_was_never_copied(finished, store):
    unit = f"jobs/{finished.pk}"
    Job.objects.filter(pk=finished.pk).update(finished_at=timezone.now() - timedelta(days=1))
    due = [due.unit for due in jobs_due(time.time(), set())]
    assert due == [unit]
    assert mirror_pass()
    assert [*jobs_due(time.time(), set())] == []


def test_no_link_that_a_program_left_is_followed_and_no_draft_is_copied(finished, bucket, store, tmp_path):
    (tmp_path / "secret").write_text("secret")
    paths = store.job(finished.pk)
    (paths.results / "linked").symlink_to(tmp_path / "secret")
    (paths.results / "folder").symlink_to(tmp_path)
    (paths.root / "incoming").mkdir()
    for draft in (paths.root / "incoming" / "x", paths.results / ".half", paths.results / "new\nline"):
        draft.write_text("x")
    unit_push(bucket, f"jobs/{finished.pk}", at_rest=True)
    names = set(listed(bucket, f"jobs/{finished.pk}"))
    assert not [name for name in names if "linked" in name or "folder" in name or "incoming" in name or ".half" in name]
    assert "work/results/new\nline" in names


def test_a_deleted_unit_goes_and_its_blobs_with_it_once_nobody_names_them(finished, bucket, store, monkeypatch):
    assert mirror_pass()
    folder = store.job(finished.pk).root
    blobs = {row["sha256"] for row in listed(bucket, f"jobs/{finished.pk}").values()}
    shutil.rmtree(folder)
    unit_forget(f"jobs/{finished.pk}")
    Job.objects.all().delete()
    assert mirror_pass()
    assert f"units/jobs/{finished.pk}.json" not in bucket.names("units")
    assert blob_name(min(blobs)) in bucket.names("sha256")
    assert sweep(bucket) == 0  # too young
    monkeypatch.setattr(mirror, "SWEEP_AGE", timedelta(seconds=-60))
    kept = {row["sha256"] for name in bucket.names("units") for row in json.loads(bucket.text_get(name))["files"]}
    assert sweep(bucket) > 0
    assert set(bucket.names("sha256")) == {blob_name(sha256) for sha256 in kept}


def test_a_content_whose_removal_was_cut_short_is_forgotten_once_it_is_gone(finished, bucket, store, monkeypatch):
    assert mirror_pass()
    folder = store.dataset(finished.dataset.sha256).root
    listing = f"units/datasets/{folder.name}.json"

    def killed():
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(purging, "new_id", killed)
        with pytest.raises(KeyboardInterrupt):
            purging.contents_purge(set(), older_than=timedelta(seconds=-60))
    assert mirror_pass() and listing in bucket.names("units")
    shutil.rmtree(folder)
    assert mirror_pass() and listing not in bucket.names("units")


def test_a_content_that_came_again_is_no_longer_to_be_forgotten(finished, bucket, store, tmp_path):
    key = finished.dataset.sha256
    assert mirror_pass()
    unit_forget(f"datasets/{key}")
    (tmp_path / "flowers.csv").write_text("a\n1\n")
    content_place(tmp_path / "flowers.csv", key, "flowers.csv")
    shutil.rmtree(store.dataset(key).root)  # not by a purge
    assert mirror_pass() and f"units/datasets/{key}.json" in bucket.names("units")


def test_a_store_whose_folder_was_lost_does_not_copy_its_emptiness(finished, bucket, store):
    assert mirror_pass()
    before = bucket.text_get(f"units/jobs/{finished.pk}.json")
    shutil.rmtree(store.root)
    store.root.mkdir()
    assert not mirror_pass()
    assert "another store" in state_read().trouble and "dlh store pull" in state_read().step
    assert bucket.text_get(f"units/jobs/{finished.pk}.json") == before


def test_lists_that_name_what_they_must_not_are_refused(bucket):
    for path in ("../x", "/etc/passwd", "a//b", "", "a/./b", "a\0b"):
        with pytest.raises(ValueError, match="no file"):
            units.rows_read(json.dumps({"files": [{"path": path, "bytes": 1, "sha256": "0" * 64}]}))
    for body in ("[]", '{"files": [1]}', '{"files": [{"path": 1, "bytes": "x", "sha256": 3}]}', "x"):
        with pytest.raises(ValueError):
            units.rows_read(body)


def test_a_server_that_is_killed_costs_a_pass_and_the_next_one_makes_up_for_it(finished, bucket, object_server):
    object_server.kill()
    try:
        assert not mirror_pass()
        assert "does not answer" in state_read().trouble
    finally:
        object_server.start()
    assert mirror_pass() and state_read().trouble == ""
    assert "work/results/model.safetensors" in listed(bucket, f"jobs/{finished.pk}")


def test_two_passes_are_not_made_at_once(finished, bucket):
    with mirror.alone() as mine:
        assert mine and not mirror_pass()
    assert mirror_pass()


def test_without_an_object_store_nothing_is_noted(settings, store):
    settings.S3 = None
    unit_forget("jobs/x")
    assert not mirror_pass() and not store.bucket.exists() and bucket_get() is None


def test_incoming_files_that_nobody_fetched_are_swept(bucket, monkeypatch):
    bucket.text_put("incoming/j/1-1/x", "x")
    assert sweep(bucket) == 0
    monkeypatch.setattr(mirror, "INCOMING_AGE", timedelta(seconds=-60))
    assert sweep(bucket) == 1 and bucket.names("incoming") == {}


def test_an_object_store_that_was_emptied_or_changed_for_another_is_filled_anew(
    finished, bucket, object_server, settings
):
    assert mirror_pass()
    before = set(bucket.names("sha256"))
    for name in [*before, *bucket.names("units"), mirror.MARK]:
        bucket.remove(name)
    assert mirror_pass() and set(bucket.names("sha256")) == before
    settings.S3 = object_server.given(uuid.uuid4().hex)
    assert mirror_pass() and set(bucket_get().names("sha256")) == before


def test_control_makes_a_pass_in_a_thread_of_its_own(finished, bucket):
    mirror.mirror_begin()
    mirror.mirror_begin()
    wait_for(lambda: state_read().complete_s and not mirror._passing.is_going_on)
    assert f"units/jobs/{finished.pk}.json" in bucket.names("units")

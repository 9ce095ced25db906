"""Files that nothing names any more go, wherever a process was killed; what somebody may be at work with stays."""

from __future__ import annotations

import errno
import os
from datetime import timedelta

import pytest
from django.utils import timezone

from harness.datasets import services
from harness.datasets.models import Upload
from harness.datasets.purging import contents_purge
from harness.datasets.uploads import uploads_expire
from harness.jobs.control.contents import content_purge
from harness.jobs.control.leftovers import leftovers_remove
from harness.jobs.control.orphans import orphans_remove
from harness.jobs.control.retention import retention
from harness.jobs.control.sizing import sizes_refresh
from harness.jobs.models import Job, JobAttempt
from harness.jobs.sizes import SETTLED_AFTER
from tests.harness.jobs.helpers import place_now

pytestmark = pytest.mark.django_db
BODY = b"length,kind\n" + b"1.5,rose\n2.5,iris\n" * 50


def age(path, days=60):
    at_s = timezone.now().timestamp() - days * 86400
    os.utime(path, (at_s, at_s), follow_symlinks=False)


def test_bytes_of_uploads_without_a_row_go_and_open_ones_stay(upload_make, store):
    kept = upload_make(10)
    for name in ("lost-row", "copy-of-a-killed-process", "young"):
        (store.uploads / name).write_bytes(b"x")
    for name in (kept.pk, "lost-row", "copy-of-a-killed-process"):
        age(store.uploads / name)
    assert orphans_remove() == 2
    assert {path.name for path in store.uploads.iterdir()} == {kept.pk, "young"}


def test_an_upload_that_was_finished_but_whose_bytes_stayed_gives_them_back(upload_make, store, monkeypatch):
    upload = upload_make(len(BODY))
    services.upload_append(upload=upload, offset=0, chunk=[BODY])
    with monkeypatch.context() as killed:
        killed.setattr(type(store.uploads), "unlink", lambda *_, **__: None)
        services.upload_finish(upload=upload)
    age(store.upload(upload.pk))
    assert orphans_remove() == 1 and not store.upload(upload.pk).exists()


def test_what_a_disk_does_not_let_go_keeps_no_other_of_its_kind(upload_make, dataset, store, monkeypatch):
    for name in ("a", "lost-row", "z"):
        store.uploads.mkdir(parents=True, exist_ok=True)
        (store.uploads / name).write_bytes(b"x")
        store.dataset(name).root.mkdir(parents=True)
        age(store.uploads / name)
        age(store.dataset(name).root)
    old = [upload_make(10) for _ in range(3)]
    Upload.objects.filter(pk__in=[one.pk for one in old]).update(updated_at=timezone.now() - timedelta(days=60))
    stuck = {store.uploads / "lost-row", store.dataset("lost-row").root, store.upload(old[1].pk)}

    def failing(real):
        def call(path, *args, **how):
            if path in stuck:
                raise OSError(errno.EIO, "Input/output error")
            return real(path, *args, **how)

        return call

    for name in ("unlink", "rename", "stat"):
        monkeypatch.setattr(type(store.uploads), name, failing(getattr(type(store.uploads), name)))
    assert (orphans_remove(), contents_purge({dataset.sha256}), uploads_expire()) == (2, 2, 2)


def test_a_copy_of_a_source_that_was_cut_short_goes(dataset, store):
    half = store.dataset(dataset.sha256).source / ".flowers.csv.4711"
    half.write_bytes(b"x")
    contents_purge({dataset.sha256})
    assert half.exists(), "somebody may be copying"
    age(half)
    contents_purge({dataset.sha256})
    assert not half.exists() and len(list(half.parent.iterdir())) == 1


def test_a_content_whose_removal_was_cut_short_leaves_no_half_of_it_in_its_place(dataset, store, monkeypatch):
    from harness.datasets import purging

    root, sha256 = store.dataset(dataset.sha256).root, dataset.sha256
    type(dataset).objects.all().delete()
    with monkeypatch.context() as killed:
        killed.setattr(purging, "tree_remove", lambda path: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            content_purge(sha256)
    assert not root.exists()
    assert orphans_remove() == 1 and not list(store.gone.iterdir())


def test_folders_of_jobs_without_a_row_go_when_that_was_known_for_as_long_as_the_trash_keeps_things(job, fill, store):
    gone, young = Job(pk="nosuchjob001"), Job(pk="nosuchjob002")
    for one in (gone, young):
        fill(one, "work/checkpoints/step-1/state.pt", 1)
    for one in (gone, job):
        age(store.job(one.pk).root)
    assert orphans_remove() == 0, "an older database may have been restored by mistake"
    age(store.orphans / gone.pk, days=13)
    assert orphans_remove() == 0
    age(store.orphans / gone.pk, days=15)
    assert orphans_remove() == 1
    assert {path.name for path in store.jobs.iterdir()} == {job.pk, young.pk}


def test_a_folder_whose_row_comes_back_begins_anew_when_that_is_lost_again(job, store):
    Job.objects.create(pk="another00001", project=job.project, owner=job.owner, dataset=job.dataset)
    age(store.job(job.pk).root)
    Job.objects.filter(pk=job.pk).delete()
    orphans_remove()
    age(store.orphans / job.pk)
    job.save(force_insert=True)
    assert orphans_remove() == 0 and not list(store.orphans.iterdir())
    Job.objects.filter(pk=job.pk).delete()
    assert orphans_remove() == 0 and store.job(job.pk).root.is_dir()


def test_files_of_a_project_that_was_deleted_go(job, dataset, people, upload_make, store):
    upload = upload_make(10)
    kept = _job_elsewhere(people)
    roots = [store.job(job.pk).root, store.dataset(dataset.sha256).root, store.upload(upload.pk)]
    Job.objects.filter(pk=job.pk).delete()
    people.project.delete()
    for root in roots:
        assert root.exists()
        age(root)
    retention()
    age(store.orphans / job.pk)
    retention()
    assert not [root for root in roots if root.exists()]
    assert Job.objects.get() == kept


def _job_elsewhere(people):
    from harness.datasets.models import Dataset

    dataset = Dataset.objects.create(project=people.elsewhere, owner=people.outsider, name="d", sha256="d" * 64)
    return Job.objects.create(project=people.elsewhere, owner=people.outsider, dataset=dataset)


def test_a_database_that_knows_nothing_has_nothing_removed(fill, store, people):
    fill(Job(pk="nosuchjob001"), "work/checkpoints/step-1/state.pt", 1)
    content = store.dataset("a" * 64).root
    content.mkdir(parents=True)
    for path in (store.job("nosuchjob001").root, content):
        age(path)
    retention()
    assert store.job("nosuchjob001").root.is_dir() and content.is_dir()


def test_the_content_of_the_last_dataset_goes_too(dataset, store, tasks_sent, django_capture_on_commit_callbacks):
    root, sha256 = store.dataset(dataset.sha256).root, dataset.sha256
    type(dataset).objects.update(deleted_at=timezone.now() - timedelta(days=60))
    age(root)
    with django_capture_on_commit_callbacks(execute=True):
        retention()
    for name, arguments, _ in tasks_sent:
        if name == "control.content_purge":
            content_purge(*arguments)
    assert not root.exists() and ("control.content_purge", [sha256], "control") in tasks_sent


def test_programs_that_a_node_was_asked_to_read_go_when_nobody_waits_any_more(store):
    old, young = (store.root / "inspections" / name for name in ("old", "young"))
    for path in (old, young):
        (path / "program").mkdir(parents=True)
    sweep = store.root / "calibration" / "nosuchsweep1"
    sweep.mkdir(parents=True)
    age(old)
    age(sweep)
    assert orphans_remove() == 2
    assert young.is_dir() and not old.exists() and not sweep.exists()


@pytest.fixture
def left_over(job, fill, node_make):
    """A run that was killed in the middle of saving, and its half-written files."""
    node_make()
    place_now(job)
    fill(job, "work/checkpoints/step-00000005/state.pt", 1)
    fill(job, "work/checkpoints/.writer-1/replaced/step-00000007/state.pt", 1)
    return job, [
        fill(job, "work/checkpoints/.writer-1/step-00000009/state.pt", 1).parent,
        fill(job, "work/checkpoints/.left-1-0a/gone-step-00000001/state.pt", 1).parent,
        fill(job, "incoming/1-node/checkpoint-step-00000009/state.pt", 1).parent.parent.parent,
    ]


def settle(job, since):
    JobAttempt.objects.filter(job=job).update(ended_at=timezone.now() - since)


def test_what_a_killed_run_left_half_written_goes_once_its_job_is_at_rest(left_over, store):
    job, half = left_over
    settle(job, 2 * SETTLED_AFTER)
    Job.objects.update(state="failed")
    assert leftovers_remove(job.pk) == 3
    assert not [path for path in half if path.exists()]
    assert {path.parent.name for path in store.job(job.pk).checkpoints.rglob("state.pt")} == {
        "step-00000005",
        "step-00000007",
    }
    assert not list(store.gone.iterdir())


@pytest.mark.parametrize("state", ["failed", "queued", "running"])
def test_what_somebody_may_be_writing_stays(left_over, state):
    job, half = left_over
    settle(job, SETTLED_AFTER / 2 if state == "failed" else 2 * SETTLED_AFTER)
    Job.objects.update(state=state)
    assert leftovers_remove(job.pk) == 0
    assert all(path.exists() for path in half)


def test_left_overs_go_by_themselves_an_hour_after_the_end(left_over, monkeypatch):
    from harness.jobs.control import sizing

    job, half = left_over
    Job.objects.update(state="failed")
    settle(job, timedelta(seconds=5))
    sizes_refresh()
    assert half[0].exists()
    later = timezone.now() + SETTLED_AFTER + timedelta(minutes=1)
    monkeypatch.setattr(sizing.timezone, "now", lambda: later)
    sizes_refresh()
    assert not half[0].exists()


def test_a_folder_that_a_program_made_a_link_leads_nowhere(left_over, store, tmp_path):
    job, _ = left_over
    settle(job, 2 * SETTLED_AFTER)
    Job.objects.update(state="failed")
    outside = tmp_path / "outside"
    (outside / ".writer-1" / "step-00000001").mkdir(parents=True)
    checkpoints = store.job(job.pk).checkpoints
    checkpoints.rename(checkpoints.with_name("aside"))
    checkpoints.symlink_to(outside)
    leftovers_remove(job.pk)
    assert (outside / ".writer-1" / "step-00000001").is_dir()


@pytest.mark.parametrize("file", ["predictions/nosuchpredic/input.csv", "exports/nosuchexport/model.onnx"])
def test_the_files_of_a_prediction_or_export_that_nobody_knows_of_go(job, fill, store, file):
    folder = fill(job, file, 1).parent
    assert leftovers_remove(job.pk) == 0, "its row may be about to come"
    age(folder)
    assert leftovers_remove(job.pk) == 1 and not folder.exists()

"""What a project is told to take is what lies on the disk for it: no more, no less, and known without looking."""

from __future__ import annotations

import errno
import os
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from harness.datasets import services
from harness.datasets.models import Dataset
from harness.datasets.purging import dataset_purge
from harness.errors import Conflict, Forbidden
from harness.jobs.control.contents import content_purge
from harness.jobs.control.retention import jobs_purge
from harness.jobs.control.sizing import sizes_refresh
from harness.jobs.models import Job
from harness.jobs.services import job_delete, job_purge
from harness.storage import sizes
from harness.storage.items import storage_items
from harness.storage.models import ContentSize, JobSize
from harness.storage.use import storage_of, storage_rows
from tests.harness.jobs.helpers import place_now
from tests.harness.storage.conftest import KIB
from tests.vanishing import first_vanishes

pytestmark = pytest.mark.django_db


def used(project):
    return storage_of(project).use


def test_a_dataset_counts_with_its_source_and_its_packed_form(dataset, people, store):
    lies_there = sum(
        path.stat().st_blocks * 512 for path in store.dataset(dataset.sha256).root.rglob("*") if path.is_file()
    )
    assert used(people.project).dataset_bytes == lies_there > 0
    assert used(people.elsewhere).used_bytes == 0


def test_a_content_counts_once_in_a_project_and_in_full_in_each(dataset, dataset_make, people, store):
    once = used(people.project).used_bytes
    dataset_make(people.mate, people.project, "again")
    dataset_make(people.outsider, people.elsewhere)
    assert used(people.project).used_bytes == once == used(people.elsewhere).used_bytes
    notes = {item.name: item.note for item in storage_items(user=people.owner, project=people.project)}
    assert notes["flowers"] == notes["again"] != ""


def test_what_others_delete_changes_nobodys_figures_and_no_bytes_that_are_needed(dataset, dataset_make, people, store):
    theirs = dataset_make(people.outsider, people.elsewhere)
    before = used(people.project)
    services.dataset_delete(user=people.outsider, dataset=theirs)
    dataset_purge(user=people.outsider, dataset=theirs)
    assert not content_purge(dataset.sha256)
    assert used(people.project) == before and used(people.elsewhere).used_bytes == 0
    assert store.dataset(dataset.sha256).packed.is_dir()


def test_what_was_read_before_and_a_job_needs_counts_but_its_source_only_once(job, dataset, people, store):
    before = used(people.project).dataset_bytes
    old = ContentSize.objects.get(pk=dataset.sha256)
    services.dataset_update(user=people.owner, dataset=dataset, column_types={"length": "category"})
    assert dataset.sha256 != old.sha256
    new = ContentSize.objects.get(pk=dataset.sha256)
    assert new.source_file == old.source_file != ""
    assert used(people.project).dataset_bytes == before + new.packed_bytes
    kinds = {item.kind: item for item in storage_items(user=people.owner, project=people.project)}
    assert kinds["earlier"].used_bytes == old.packed_bytes and "1 job used it" in kinds["earlier"].keeps


def test_a_job_counts_by_what_its_files_are(job, people, fill):
    fill(job, "work/checkpoints/step-1/state.pt", 300)
    fill(job, "work/results/model.safetensors", 200)
    fill(job, "predictions/p1/output.json", 100)
    fill(job, "exports/e1/model.onnx", 40)
    fill(job, "logs/attempt-1/rank-0.log", 50)
    sizes_refresh()
    found = used(people.project)
    assert (found.checkpoint_bytes, found.result_bytes) == (300 * KIB, 340 * KIB)
    assert 50 * KIB <= found.other_bytes < 200 * KIB  # and its program
    (item,) = [item for item in storage_items(user=people.owner, project=people.project) if item.kind == "job"]
    assert (item.checkpoint_bytes, item.result_bytes) == (300 * KIB, 340 * KIB)


def test_the_things_of_a_project_add_up_to_what_it_takes(job, dataset, people, fill, upload_make):
    fill(job, "work/checkpoints/step-1/state.pt", 300)
    upload_make(1000)
    Dataset.objects.create(project=people.project, owner=people.owner, name="not stored yet", source_bytes=5 << 20)
    sizes_refresh()
    items = storage_items(user=people.owner, project=people.project)
    assert sum(item.used_bytes for item in items) == used(people.project).used_bytes
    assert {item.kind for item in items} == {"dataset", "job", "upload"}


def test_nobody_else_reads_the_name_of_an_upload_that_is_not_finished(people, upload_make):
    upload_make(1000)
    names = [
        [item.name for item in storage_items(user=user, project=people.project)] for user in (people.owner, people.mate)
    ]
    assert names == [["a.csv"], ["An upload"]]


def test_the_largest_comes_first(job_make, people, fill):
    for kib in (100, 900, 300):
        fill(job_make(name=str(kib)), "work/checkpoints/step-1/state.pt", kib)
    sizes_refresh()
    jobs = [item.name for item in storage_items(user=people.owner, project=people.project) if item.kind == "job"]
    assert jobs == ["900", "300", "100"]


def test_a_link_that_a_program_left_counts_nothing_of_what_it_leads_to(job, people, fill, tmp_path, store):
    (tmp_path / "big").mkdir()
    (tmp_path / "big" / "file").write_bytes(b"x" * 900 * KIB)
    store.job(job.pk).work.mkdir(parents=True)
    store.job(job.pk).checkpoints.symlink_to(tmp_path / "big")
    sizes_refresh()
    assert used(people.project).checkpoint_bytes == 0
    assert used(people.project).other_bytes < 200 * KIB


def test_what_is_too_deep_to_count_counts_as_much_as_a_job_may_take(job, people, fill, settings):
    settings.JOB_DISK_BYTES = 7 << 20
    fill(job, "work/" + "d/" * 40 + "file", 1)
    sizes_refresh()
    found = JobSize.objects.get(job=job)
    assert found.checkpoint_bytes + found.result_bytes + found.other_bytes == 7 << 20


def test_a_folder_with_more_files_than_are_counted_is_not_whole(tmp_path):
    for number in range(6):
        (tmp_path / str(number)).touch()
    assert sizes.tree_measure(tmp_path, lambda _: "all", entries_max=6).is_whole
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").touch()
    assert not sizes.tree_measure(tmp_path, lambda _: "all", entries_max=6).is_whole


def test_a_file_that_is_removed_while_its_folder_is_counted_hides_no_other_one(tmp_path, monkeypatch):
    for number in range(5):
        (tmp_path / str(number)).write_bytes(b"x" * 64 * KIB)
    first_vanishes(tmp_path, monkeypatch)
    found = sizes.tree_measure(tmp_path, lambda _: "all")
    assert found.is_whole and found.bytes_by_part["all"] == 4 * 64 * KIB


def test_what_is_deleted_for_good_counts_no_more_and_gives_the_disk_back(job, dataset, people, store, fill):
    fill(job, "work/checkpoints/step-1/state.pt", 300)
    sizes_refresh()
    full = used(people.project).used_bytes
    job_delete(user=people.owner, job=job)
    assert used(people.project).used_bytes == full, "the trash takes disk"
    with pytest.raises(Conflict, match="not in the trash"):
        dataset_purge(user=people.owner, dataset=dataset)
    services.dataset_delete(user=people.owner, dataset=dataset)
    with pytest.raises(Conflict, match="1 job used"):
        dataset_purge(user=people.owner, dataset=dataset)
    job_purge(user=people.owner, job=job)
    assert used(people.project).checkpoint_bytes == 0
    with pytest.raises(Conflict, match="just being deleted"):
        dataset_purge(user=people.owner, dataset=dataset)
    assert jobs_purge() == 1 and not store.job(job.pk).root.exists()
    dataset_purge(user=people.owner, dataset=dataset)
    assert content_purge(dataset.sha256)
    assert used(people.project).used_bytes == 0
    assert not store.dataset(dataset.sha256).root.exists() and not list(store.gone.iterdir())


def test_only_owners_and_admins_of_the_project_delete_for_good(job, dataset, people):
    job_delete(user=people.owner, job=job)
    services.dataset_delete(user=people.owner, dataset=dataset)
    for user in (people.mate, people.viewer):
        with pytest.raises(Forbidden):
            job_purge(user=user, job=job)
        with pytest.raises(Forbidden):
            dataset_purge(user=user, dataset=dataset)


def test_a_job_that_is_being_deleted_for_good_does_not_go_back_to_the_trash(job, people):
    job_delete(user=people.owner, job=job)
    job_purge(user=people.owner, job=job)
    job_purge(user=people.owner, job=job)
    job_delete(user=people.owner, job=job)
    assert jobs_purge() == 1


def test_a_job_that_was_never_in_the_trash_is_not_deleted_for_good(job, people):
    with pytest.raises(Conflict, match="not in the trash"):
        job_purge(user=people.owner, job=job)
    assert jobs_purge() == 0 and Job.objects.filter(pk=job.pk).exists()


def test_a_content_that_is_being_placed_is_not_removed(store, people):
    from harness.datasets.content import contents_held

    spare = store.dataset("c" * 64).root
    spare.mkdir(parents=True)
    with contents_held():
        assert not content_purge("c" * 64)
    assert content_purge("c" * 64) and not spare.exists()


def test_a_page_asks_as_much_of_many_projects_as_of_one(dataset, dataset_make, job, people):
    sizes_refresh()
    with CaptureQueriesContext(connection) as one:
        storage_rows(user=people.owner)
    dataset_make(people.outsider, people.elsewhere)
    with CaptureQueriesContext(connection) as two:
        assert len(storage_rows(user=people.admin)) == 2
    assert len(two) <= len(one)


def test_a_run_is_measured_again_while_it_runs_and_when_it_has_ended(job, people, fill, node_make):
    node_make()
    attempt = place_now(job)
    fill(job, "work/checkpoints/step-1/state.pt", 100)
    sizes_refresh()
    fill(job, "work/checkpoints/step-2/state.pt", 100)
    sizes_refresh()
    assert used(people.project).checkpoint_bytes == 100 * KIB, "not every 20 s"
    from harness.jobs.control.attempts import attempt_end
    from worker.events import Outcome

    attempt_end(attempt, Outcome.FAILED, {"code": "program_error", "message": "no"})
    sizes_refresh()
    assert used(people.project).checkpoint_bytes == 200 * KIB


def test_sizes_of_what_nobody_names_any_more_are_forgotten(dataset, people):
    assert ContentSize.objects.filter(pk=dataset.sha256).exists()
    Dataset.objects.all().delete()
    sizes_refresh()
    assert not ContentSize.objects.exists()


def test_what_was_stored_before_sizes_were_kept_is_measured_by_itself(dataset, job, people):
    full = used(people.project).dataset_bytes
    ContentSize.objects.all().delete()
    JobSize.objects.all().delete()
    assert used(people.project).dataset_bytes == dataset.source_bytes
    sizes_refresh()
    assert used(people.project).dataset_bytes == full and JobSize.objects.filter(job=job).exists()


def test_a_store_that_is_away_makes_nothing_small_or_large_and_is_asked_again_soon(
    job, dataset, people, store, fill, monkeypatch
):
    fill(job, "work/checkpoints/step-1/state.pt", 100)
    sizes_refresh()
    known = used(people.project)
    assert known.checkpoint_bytes == 100 * KIB and known.dataset_bytes > 0
    away = store.root.with_name("away")

    def everything_measured():
        JobSize.objects.update(due_at=timezone.now())
        ContentSize.objects.update(measured_at=timezone.now() - timedelta(days=2))
        sizes_refresh()
        due_s = (JobSize.objects.get(job=job).due_at - timezone.now()).total_seconds()
        return used(people.project), due_s

    store.root.rename(away)  # not mounted: its place is an empty folder
    store.root.mkdir()
    found, due_s = everything_measured()
    assert found == known and 0 < due_s <= 300
    store.jobs.mkdir()  # as who writes the first file there does
    store.datasets.mkdir()
    found, due_s = everything_measured()
    assert found == known and 0 < due_s <= 300

    def stale(folder):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(folder))

    store.jobs.rmdir()
    store.datasets.rmdir()
    store.root.rmdir()
    away.rename(store.root)
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", stale)  # mounted, and its server does not know it any more
        assert everything_measured()[0] == known
    fill(job, "work/checkpoints/step-2/state.pt", 100)
    assert everything_measured()[0].checkpoint_bytes == 200 * KIB

from __future__ import annotations

import shutil
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from harness import database
from harness.celery import app
from harness.datasets.models import Dataset
from harness.datasets.purging import contents_purge
from harness.env import S3Settings
from harness.errors import NotFound
from harness.jobs.control import retention as module
from harness.jobs.control.retention import jobs_purge, retention, samples_thin
from harness.jobs.control.usage import SAMPLES_MOST, attempt_samples
from harness.jobs.failures import CAUSES, failure_of
from harness.jobs.models import Job, MetricPoint, ResourceSample
from harness.jobs.selectors import JobFilters, job_list
from harness.jobs.services import job_restore
from tests.harness.jobs.helpers import place_now
from worker.events import FailureCode

pytestmark = pytest.mark.django_db
DAY_S = 86400.0
LONG_AGO = timezone.now() - timedelta(days=60)


def test_what_lay_in_the_trash_too_long_is_deleted_with_its_files(job, node_make, tasks_sent):
    node_make()
    Job.objects.update(deleted_at=timezone.now())
    assert jobs_purge() == 0
    Job.objects.update(deleted_at=LONG_AGO)
    root = settings.STORE.job(job.pk).root
    assert root.is_dir()
    assert jobs_purge() == 1
    assert not root.exists() and not Job.objects.exists()
    assert ("node.purge", [job.pk], "node.node-1") in tasks_sent


def test_the_object_store_is_to_be_told_what_was_deleted_for_good(job, tasks_sent, settings):
    settings.S3 = S3Settings("pool", key="k", secret="s")
    sha256 = job.dataset.sha256
    Job.objects.update(deleted_at=LONG_AGO)
    jobs_purge()
    contents_purge(set(), older_than=timedelta(seconds=-5))
    notes = {path.name for path in (settings.STORE.bucket / "gone").iterdir()}
    assert {f"jobs+{job.pk}", f"datasets+{sha256}"} <= notes
    shutil.rmtree(settings.STORE.bucket)


def test_a_dataset_stays_while_a_job_needs_it(job, tasks_sent):
    Dataset.objects.update(deleted_at=LONG_AGO)
    retention()
    assert Dataset.objects.count() == 1
    Job.objects.update(deleted_at=LONG_AGO)
    retention()
    assert not Dataset.objects.exists()


def test_a_job_that_was_submitted_again_is_not_purged(job, tasks_sent):
    Job.objects.update(deleted_at=LONG_AGO, state="running")
    assert jobs_purge() == 0


def test_a_job_that_is_taken_out_of_the_trash_while_others_are_purged_stays(job_make, people, tasks_sent, monkeypatch):
    jobs = {job.pk: job for job in (job_make(), job_make())}
    Job.objects.update(deleted_at=LONG_AGO)
    purged = []

    def purge(rows, job_id):
        if purged:
            job_restore(user=people.owner, job=jobs[job_id])
        purged.append(job_id)
        return work(rows, job_id)

    work = module._job_purge
    monkeypatch.setattr(module, "_job_purge", purge)
    assert (jobs_purge(), len(purged)) == (1, 2)
    (left,) = Job.objects.all()
    assert left.pk == purged[1] and left.deleted_at is None
    assert [settings.STORE.job(pk).root.is_dir() for pk in purged] == [False, True]


@pytest.fixture
def long_history(job, monkeypatch):
    monkeypatch.setattr(database, "BATCH_ROWS", 10)
    monkeypatch.setattr(database, "BREATH_S", 0.0)
    MetricPoint.objects.bulk_create(MetricPoint(job=job, key="a", step=n, epoch=0, time_s=n) for n in range(35))
    ResourceSample.objects.bulk_create(ResourceSample(job=job, token=1, time_s=n, data={}) for n in range(25))
    Job.objects.update(deleted_at=LONG_AGO)
    return job


def test_a_long_history_is_deleted_in_small_parts(long_history, tasks_sent):
    with CaptureQueriesContext(connection) as captured:
        assert jobs_purge() == 1
    assert not Job.objects.exists() and not MetricPoint.objects.exists() and not ResourceSample.objects.exists()
    deletes = [query["sql"] for query in captured if query["sql"].startswith('DELETE FROM "jobs_metricpoint"')]
    assert len(deletes) >= 4 and all("LIMIT 10" in sql for sql in deletes[:4])


def test_a_purge_that_was_cut_short_is_gone_on_with_and_the_job_stays_in_the_trash(
    long_history, people, tasks_sent, monkeypatch
):
    with monkeypatch.context() as cut:
        cut.setattr(database.time, "sleep", lambda _: 1 / 0)
        assert jobs_purge() == 0
    assert 0 < MetricPoint.objects.count() < 35
    with pytest.raises(NotFound, match="for good"):
        job_restore(user=people.owner, job=long_history)
    assert not job_list(user=people.owner, filters=JobFilters(deleted=True)).items
    assert jobs_purge() == 1 and not Job.objects.exists()


def test_files_of_a_purge_that_was_cut_short_go_with_the_next(job, tasks_sent, monkeypatch):
    Job.objects.update(deleted_at=LONG_AGO)
    with monkeypatch.context() as cut:
        cut.setattr(module, "tree_remove", lambda path: None)
        assert jobs_purge() == 1
    root = settings.STORE.job(job.pk).root
    assert not root.exists() and root.with_name(f".gone-{job.pk}").is_dir()
    assert jobs_purge() == 0
    assert not list(settings.STORE.jobs.glob(".gone-*"))


def test_old_samples_are_thinned_once(job):
    Job.objects.update(finished_at=LONG_AGO)
    ResourceSample.objects.bulk_create(ResourceSample(job=job, token=1, time_s=n, data={}) for n in range(100))
    assert samples_thin() == 90
    assert samples_thin() == 0
    assert ResourceSample.objects.count() == 10


def test_samples_of_a_run_that_goes_on_are_thinned_too_and_new_ones_stay(job):
    Job.objects.update(state="running")
    now_s = timezone.now().timestamp()
    times_s = [*range(100), *(now_s - age_s for age_s in range(20))]
    ResourceSample.objects.bulk_create(ResourceSample(job=job, token=1, time_s=at, data={}) for at in times_s)
    assert samples_thin() == 90
    assert ResourceSample.objects.filter(thinned=False).count() == 20


def test_of_a_run_on_several_nodes_samples_of_each_stay(job, node_make):
    nodes = [node_make("node-1"), node_make("node-2")]
    ResourceSample.objects.bulk_create(
        ResourceSample(job=job, node=nodes[n % 2], token=1, time_s=n, data={}) for n in range(200)
    )
    samples_thin()
    assert [ResourceSample.objects.filter(node=node).count() for node in nodes] == [10, 10]


def test_what_is_thinned_counts_no_less_in_the_mean_of_a_run(job, node_make):
    node = node_make(cpus=1)
    attempt = place_now(job)
    now_s = timezone.now().timestamp()
    old = [(now_s - 8 * DAY_S + n * 60, 10.0) for n in range(4 * 24 * 60)]
    new = [(now_s - 4 * DAY_S + n * 60, 30.0) for n in range(4 * 24 * 60)]
    ResourceSample.objects.bulk_create(
        ResourceSample(job=job, node=node, token=1, time_s=at, data={"percent": percent}) for at, percent in old + new
    )
    samples_thin()
    assert ResourceSample.objects.filter(time_s__lt=now_s - 4 * DAY_S).count() < len(old) / 9
    percents = [sample["percent"] for sample in attempt_samples(attempt)]
    assert len(percents) <= SAMPLES_MOST + 1
    assert sum(percents) / len(percents) == pytest.approx(20.0, abs=0.5)


def test_every_cause_has_a_sentence_and_a_next_step():
    assert set(CAUSES) == set(FailureCode)
    assert all(cause.message.endswith(".") and cause.hint.endswith(".") for cause in CAUSES.values())


@pytest.mark.parametrize("body", [None, {}, {"code": "nonsense"}, {"code": 7, "step": "x", "traceback": ""}, []])
def test_a_failure_in_any_form_gets_words(body):
    told = failure_of(body, fallback=FailureCode.PROGRAM_ERROR)
    assert told.code == "program_error" and told.message and told.hint and told.step is None


def test_control_has_every_task_of_the_contract():
    app.loader.import_default_modules()
    names = {
        "tick",
        "ingest",
        "reconcile",
        "retention",
        "dataset_profile",
        "node_report",
        "prediction_done",
        "check_begun",
        "check_done",
    }
    assert {f"control.{name}" for name in names} <= set(app.tasks)
    assert {entry["task"] for entry in app.conf.beat_schedule.values()} <= set(app.tasks)
    assert app.conf.accept_content == ["json"]

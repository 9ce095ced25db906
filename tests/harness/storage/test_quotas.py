"""A quota refuses what would be added, says why, loses nothing, and ends nothing that runs."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from harness.accounts.models import AuditEvent
from harness.datasets import services, uploads
from harness.datasets.models import Dataset, Upload
from harness.errors import Forbidden, Invalid, NoSpace, NotFound
from harness.jobs.control.sizing import sizes_refresh
from harness.jobs.control.tick import tick
from harness.jobs.predictions import prediction_create
from harness.jobs.services import job_resume
from harness.rates.submitting import job_submit
from harness.storage.quotas import storage_quota_remove, storage_quota_set
from harness.storage.room import storage_check
from harness.storage.use import storage_of
from tests.harness.jobs.helpers import queue
from tests.harness.storage.conftest import KIB

pytestmark = pytest.mark.django_db
BODY = b"length,kind\n" + b"1.5,rose\n2.5,iris\n" * 50


@pytest.fixture
def allow(people):
    """Let the project take so many bytes more than it has."""

    def set_to(more_bytes):
        used_bytes = storage_of(people.project).use.used_bytes
        storage_quota_set(user=people.admin, project=people.project, limit_bytes=used_bytes + more_bytes)

    return set_to


def test_without_a_quota_there_is_no_limit_and_a_default_holds_for_all(people, upload_make, settings):
    assert storage_of(people.project).limit_bytes is None
    upload_make(5 << 30)
    settings.STORAGE_QUOTA_BYTES = 5 << 30
    found = storage_of(people.project)
    assert (found.limit_bytes, found.is_default, found.is_over) == (5 << 30, True, True)
    storage_quota_set(user=people.admin, project=people.project, limit_bytes=None)
    assert storage_of(people.project).limit_bytes is None
    storage_quota_remove(user=people.admin, project=people.project)
    assert storage_of(people.project).is_over


def test_an_upload_is_refused_at_its_beginning_and_told_what_is_large(dataset, people, upload_make, allow):
    allow(KIB)
    with pytest.raises(NoSpace) as caught:
        upload_make(KIB + 1)
    error = caught.value
    assert (error.status, error.code) == (507, "storage_quota")
    assert "Birds uses" in error.message and "1 KiB more" in error.message
    assert "flowers (" in error.hint and "admin" in error.hint
    assert error.details["limit_bytes"] - error.details["used_bytes"] == KIB
    assert not Upload.objects.exists()


def test_what_is_announced_counts_until_it_is_finished_or_given_up(people, upload_make, allow):
    allow(KIB)
    first = upload_make(KIB)
    with pytest.raises(NoSpace):
        upload_make(1, user=people.mate)
    services.upload_delete(upload=first)
    upload_make(KIB, user=people.mate)


def test_an_upload_that_was_let_in_is_finished_whatever_the_quota_says_then(people, upload_make, allow):
    upload = upload_make(len(BODY))
    services.upload_append(upload=upload, offset=0, chunk=[BODY[:20]])
    storage_quota_set(user=people.admin, project=people.project, limit_bytes=0)
    services.upload_append(upload=upload, offset=20, chunk=[BODY[20:]])
    services.upload_finish(upload=uploads.upload_get(user=people.owner, upload_id=upload.pk))
    assert Dataset.objects.count() == 1
    assert storage_of(people.project).use.upload_bytes == 0


def test_where_there_is_no_limit_nothing_is_added_up(people, dataset):
    with CaptureQueriesContext(connection) as asked:
        storage_check(people.project, 1 << 50)
    assert len(asked) == 1


def test_another_project_is_not_held_back(people, upload_make, allow):
    allow(0)
    upload_make(KIB, user=people.outsider, project=people.elsewhere)


def test_nothing_that_waits_or_runs_is_ended_and_nothing_new_begins(job_make, people, node_make, allow):
    node_make(cpus=1)
    waiting, draft, paused = queue(job_make()), job_make(), job_make()
    type(paused).objects.filter(pk=paused.pk).update(state="paused")
    paused.refresh_from_db()
    sizes_refresh()
    allow(0)
    for refused in (
        lambda: job_submit(user=people.owner, job=draft),
        lambda: job_resume(user=people.owner, job=paused),
        lambda: job_make(),
        lambda: prediction_create(user=people.owner, job=draft, input_name="a.csv", data=b"a\n1\n"),
    ):
        with pytest.raises(NoSpace, match="Birds uses"):
            refused()
    assert tick() == 1
    for job, state in ((waiting, "placed"), (draft, "draft"), (paused, "paused")):
        job.refresh_from_db()
        assert job.state == state


def test_a_dataset_is_not_packed_once_more_above_the_quota(dataset, people, allow):
    allow(0)
    before = dataset.sha256
    with pytest.raises(NoSpace):
        services.dataset_update(user=people.owner, dataset=dataset, column_types={"length": "category"})
    dataset.refresh_from_db()
    assert (dataset.sha256, dataset.state) == (before, "ready")
    assert services.dataset_update(user=people.owner, dataset=dataset, name="other").name == "other"


def test_quotas_are_set_by_admins_and_noted(people):
    for user in (people.owner, people.outsider):
        with pytest.raises(Forbidden):
            storage_quota_set(user=user, project=people.project, limit_bytes=5)
        with pytest.raises(Forbidden):
            storage_quota_remove(user=user, project=people.project)
    for wrong in (-1, True, 1 << 70):
        with pytest.raises(Invalid):
            storage_quota_set(user=people.admin, project=people.project, limit_bytes=wrong)
    with pytest.raises(NotFound):
        storage_quota_remove(user=people.admin, project=people.project)
    storage_quota_set(user=people.admin, project=people.project, limit_bytes=5)
    (noted,) = AuditEvent.objects.all()
    assert (noted.action, noted.target, noted.data) == ("storage_quota_set", "birds", {"limit_bytes": 5})

"""What is removed on purpose from a job that is over leaves its copy too."""

from __future__ import annotations

import os
import time
from datetime import timedelta

import pytest
from django.utils import timezone

from harness.bucket import mirror
from harness.bucket.client import bucket_get
from harness.bucket.due import unit_due, units_due
from harness.bucket.mirror import mirror_pass
from harness.bucket.units import unit_push
from harness.jobs.control.leftovers import leftovers_remove
from harness.jobs.models import Job, Prediction
from harness.jobs.past_predictions import prediction_delete
from tests.harness.bucket.copies import listed

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("tasks_sent")]


def answered(job, store, name="input.csv"):
    """(row, folder) of a prediction that was answered before the last pass."""
    row = Prediction.objects.create(job=job, owner=job.owner, state="done", finished_at=timezone.now())
    folder = store.job(job.pk).prediction(row.pk)
    folder.mkdir(parents=True)
    (folder / name).write_text("a\n1\n")
    assert mirror_pass() and f"predictions/{row.pk}/{name}" in listed(bucket_get(), f"jobs/{job.pk}")
    past = timezone.now() - timedelta(days=2)
    Job.objects.update(finished_at=past)
    Prediction.objects.update(created_at=past, finished_at=past)
    return row, folder


def test_a_prediction_that_was_deleted_leaves_the_copy_too(finished, bucket, store):
    row, _ = answered(finished, store)
    prediction_delete(user=finished.owner, prediction=row)
    assert units_due() == {f"jobs/{finished.pk}"}
    assert mirror_pass() and units_due() == set()
    assert not any(path.startswith("predictions/") for path in listed(bucket, f"jobs/{finished.pk}"))


def test_files_of_a_prediction_whose_deletion_was_cut_short_leave_the_copy_too(finished, bucket, store):
    row, folder = answered(finished, store)
    row.delete()
    past_s = time.time() - timedelta(days=2).total_seconds()
    os.utime(folder, (past_s, past_s))
    assert leftovers_remove(finished.pk) == 1
    assert mirror_pass()
    assert not any(path.startswith("predictions/") for path in listed(bucket, f"jobs/{finished.pk}"))


def test_what_is_removed_while_its_job_is_looked_at_is_looked_at_again(finished, bucket, store, monkeypatch):
    row, _ = answered(finished, store)
    unit_due(f"jobs/{finished.pk}")

    def and_then(where, unit, **told):
        put = unit_push(where, unit, **told)
        if unit == f"jobs/{finished.pk}" and Prediction.objects.exists():
            prediction_delete(user=finished.owner, prediction=row)
        return put

    monkeypatch.setattr(mirror, "unit_push", and_then)
    assert mirror_pass() and units_due() == {f"jobs/{finished.pk}"}
    assert mirror_pass() and units_due() == set()
    assert not any(path.startswith("predictions/") for path in listed(bucket, f"jobs/{finished.pk}"))


def test_a_note_of_what_was_never_copied_goes(finished, bucket):
    unit_due("jobs/other")
    assert units_due() == set() and units_due() == set()

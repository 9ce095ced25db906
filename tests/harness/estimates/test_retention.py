"""What nobody waits for any more goes by itself, whether somebody looks or not."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from harness.celery import app
from harness.estimates.models import Inspection, JobEstimate, OfferRow, ProbeRow
from harness.estimates.retention import estimates_retention, probes_watch
from harness.estimates.services import Asked, offer_make_workload, offer_probe
from harness.pool.models import Reservation
from tests.harness.estimates.factories import workload_make

LONG_AGO = timedelta(days=40)


def test_questions_without_an_answer_end_and_leave_no_files(job, people, node_make, ask, offered):
    node_make("node-1")
    offer_probe(user=people.owner, offer=offered(job))
    Inspection.objects.update(state="waiting", workload=None, sent_at=timezone.now() - LONG_AGO)
    ProbeRow.objects.update(sent_at=timezone.now() - LONG_AGO)
    probes_watch()
    estimates_retention()
    assert [Inspection.objects.get().state, ProbeRow.objects.get().state] == ["failed", "failed"]
    assert not Reservation.objects.filter(cancelled_at=None).exists()
    folders = {Inspection.objects.get().pk, f"probe-{ProbeRow.objects.get().pk}"}
    assert not folders & {folder.name for folder in (settings.STORE.root / "inspections").iterdir()}


def test_old_offers_that_belong_to_no_job_go(job, people, node_make, offered):
    node_make("node-1")
    of_job = offered(job)
    given = [offer_make_workload(user=people.owner, workload=workload_make().to_dict(), asked=Asked()) for _ in "ab"]
    OfferRow.objects.filter(pk__in=[of_job.pk, given[0].pk]).update(created_at=timezone.now() - LONG_AGO)
    assert estimates_retention() == 1
    assert set(OfferRow.objects.values_list("pk", flat=True)) == {of_job.pk, given[1].pk}


def test_what_was_read_off_a_program_goes_when_nothing_rests_on_it(job, job_make, people, node_make, offered):
    node_make("node-1")
    of_offer = offered(job).inspection
    of_job = offered(job_make(training={"epochs": 3})).inspection
    unused = offered(job_make(training={"epochs": 4})).inspection
    asked_now = offered(job_make(training={"epochs": 5})).inspection
    OfferRow.objects.exclude(inspection=of_offer).delete()
    JobEstimate.objects.all().delete()
    JobEstimate.objects.create(job=job, inspection_key=of_job.key, estimate={})
    Inspection.objects.exclude(pk=asked_now.pk).update(sent_at=timezone.now() - LONG_AGO)
    estimates_retention()
    assert set(Inspection.objects.values_list("pk", flat=True)) == {of_offer.pk, of_job.pk, asked_now.pk}
    assert unused.pk not in Inspection.objects.values_list("pk", flat=True)


def test_control_does_it_now_and_then():
    assert "control.estimates_retention" in {entry["task"] for entry in app.conf.beat_schedule.values()}

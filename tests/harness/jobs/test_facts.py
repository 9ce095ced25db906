"""What the scheduler is shown: no single job, whatever its program claims, keeps the others from being served."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from harness.jobs import admission
from harness.jobs.control import held, views
from harness.jobs.control.attempts import attempt_end
from harness.jobs.control.effects import events_apply
from harness.jobs.control.tick import tick
from harness.jobs.models import Job
from harness.jobs.promises import PromiseState, promise_told
from tests.harness.jobs.helpers import event, queue
from tests.harness.jobs.test_scheduling import estimated, running
from worker.events import Outcome

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tasks_sent")]


@pytest.mark.parametrize("claimed", [-5.0, 1e-320, 1e308, 1e-9])
def test_a_run_that_claims_a_senseless_pace_stops_nobody(job_make, node_make, claimed):
    node_make("node-1", cpus=2)
    liar, _ = running(job_make, counts=(1,))
    Job.objects.filter(pk=liar.pk).update(state="running", eta_s=claimed)
    other = queue(estimated(job_make(name="other")))
    assert tick() == 1
    other.refresh_from_db()
    assert other.state == "placed"


@pytest.mark.parametrize("claimed", [-5.0, 1e300, "soon", True])
def test_a_time_that_is_none_is_not_taken_in(job_make, node_make, claimed):
    node_make("node-1", cpus=1)
    job, attempt = running(job_make, counts=(1,))
    told = event(job, "progress", 5, rank=0, token=attempt.number, step=60, steps_total=100, eta_s=claimed)
    events_apply(job.pk, [told])
    job.refresh_from_db()
    assert (job.step, job.eta_s) == (60, None)


def test_a_job_that_cannot_be_shown_stops_nobody(job_make, node_make, monkeypatch):
    node_make("node-1", cpus=2)
    broken, fine = queue(estimated(job_make(name="broken"))), queue(estimated(job_make(name="fine")))
    read = views.options_of
    monkeypatch.setattr(views, "options_of", lambda job: () if job.pk == broken.pk else read(job))
    assert tick() == 1
    fine.refresh_from_db()
    assert fine.state == "placed"


def test_facts_take_as_many_queries_for_many_edited_jobs_as_for_one(job_make, node_make, django_assert_num_queries):
    node_make("node-1")
    queue(estimated(job_make(name="one")))
    Job.objects.update(program_edited=True)
    views.facts_read()  # makes the row of settings
    with CaptureQueriesContext(connection) as few:
        views.facts_read()
    for number in range(4):
        queue(estimated(job_make(name=f"more {number}")))
    Job.objects.update(program_edited=True)
    with django_assert_num_queries(len(few)):
        views.facts_read()


@pytest.mark.parametrize(
    ("state", "edited", "pausable"),
    [("running", False, True), ("placed", False, False), ("queued", False, True), ("queued", True, False)],
)
def test_a_job_that_waits_is_planned_as_what_can_be_paused_once_it_runs(job_make, node_make, state, edited, pausable):
    node_make("node-1", cpus=2)
    if state == "queued":
        job = queue(estimated(job_make()))
    else:
        job, _ = running(job_make, counts=(1,))
    Job.objects.filter(pk=job.pk).update(state=state, program_edited=edited)
    (view,) = views.facts_read().views
    assert view.can_pause is pausable


def meanwhile(monkeypatch, happens):
    """Once, after what is held was read and before the jobs are."""
    read, left = held.held_read, [happens]

    def held_read():
        found = read()
        if left:
            left.pop()()
        return found

    monkeypatch.setattr(held, "held_read", held_read)


def test_a_job_that_goes_back_into_the_queue_while_all_is_read_is_there_and_its_devices_are_not_free(
    job_make, node_make, monkeypatch
):
    node_make("node-1", cpus=1)
    job, attempt = running(job_make, counts=(1,))
    meanwhile(monkeypatch, lambda: attempt_end(attempt, Outcome.LOST, None))
    facts = views.facts_read(with_delayed=True)
    assert [(view.job_id, view.running) for view in facts.views] == [(job.pk, None)]
    assert [device.free for node in facts.pool.nodes for device in node.devices] == [False]


def test_a_job_that_begins_while_all_is_read_is_seen_with_its_devices(job_make, node_make, monkeypatch):
    node_make("node-1", cpus=1)
    job = queue(estimated(job_make()))
    meanwhile(monkeypatch, tick)
    facts = views.facts_read(with_delayed=True)
    assert [(view.job_id, view.running is not None) for view in facts.views] == [(job.pk, True)]


def test_a_promise_that_cannot_be_asked_for_stops_nobody(job_make, node_make, monkeypatch):
    node_make("node-1", cpus=2)
    broken, fine = queue(estimated(job_make(name="broken"))), queue(estimated(job_make(name="fine")))
    later = timezone.now() + timedelta(hours=1)
    Job.objects.filter(pk=broken.pk).update(deadline_at=later, promise=promise_told(PromiseState.NO_ESTIMATE))
    monkeypatch.setattr(admission, "job_admit_again", lambda job: 1 / 0)
    assert tick() == 2
    fine.refresh_from_db()
    assert fine.state == "placed"

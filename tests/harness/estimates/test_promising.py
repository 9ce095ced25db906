"""What an offer says of a wished finish is what submission then says: the scheduler is asked for both."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from harness.errors import Invalid
from harness.estimates.selectors import offer_priced
from harness.estimates.services import offer_accept
from harness.jobs.control.tick import tick
from harness.jobs.models import Job
from harness.pool.models import PoolSetting, Quota
from harness.rates.submitting import job_submit
from tests.factory_reservations import reservation_create
from tests.harness.jobs.helpers import estimated, queue, run_now

HOUR = timedelta(hours=1)


def longest(offer):
    """The longest that the way with the least energy may take."""
    return timedelta(seconds=offer_priced(offer).chosen.estimate.run_s.high)


def promise(job, *, hours):
    """Queue it with a promised finish."""
    Job.objects.filter(pk=queue(job).pk).update(
        deadline_at=timezone.now() + hours * HOUR, promised_at=timezone.now() + hours * HOUR
    )


def test_jobs_that_can_be_paused_for_a_promise_do_not_stand_in_its_way(job, job_make, node_make, offered):
    node_make("node-1", cpus=2)
    for name in "ab":
        run_now(estimated(job_make(name=name), run_s=200 * 3600.0))
    tick()  # tells when these are expected to end
    assert offer_priced(offered(job)).chosen.start_s > (timezone.now() + 100 * HOUR).timestamp(), "without a deadline"
    offer = offered(job, deadline_at=timezone.now() + longest(offered(job)) + HOUR)
    priced = offer_priced(offer)
    assert priced.chosen.start_s == pytest.approx(timezone.now().timestamp(), abs=600)
    assert not any("are a guess" in note for note in offer.notes)
    taken = job_submit(user=job.owner, job=offer_accept(user=job.owner, offer=offer))
    assert taken.promised_at == taken.deadline_at


@pytest.mark.parametrize("ending", [{"state": "cancelling"}, {"state": "pausing", "preempted": False}])
def test_devices_of_a_run_that_was_told_to_end_can_be_promised(job, job_make, node_make, offered, ending):
    node_make("node-1", cpus=2)
    other = estimated(job_make(name="other"), run_s=200 * 3600.0)
    run_now(other)
    Job.objects.filter(pk=other.pk).update(**ending)
    priced = offer_priced(offered(job, deadline_at=timezone.now() + 300 * HOUR))
    assert {line.allocation.count for line in priced.lines if line.feasible} == {1, 2}


def test_a_quota_that_the_projects_own_promises_use_up_counts(job, job_make, node_make, offered):
    node_make("node-1", cpus=4)
    Quota.objects.create(project=job.project, device_kind="cpu", devices=1, may_borrow=False)
    promise(estimated(job_make(name="first", training={"epochs": 7}), run_s=9 * 3600.0), hours=12)
    soon = timezone.now() + longest(offered(job)) + HOUR
    priced = offer_priced(offered(job, deadline_at=soon))
    assert priced.chosen is None and "No option meets this deadline" in priced.text
    late = timezone.now() + longest(offered(job)) + 14 * HOUR
    assert offer_priced(offered(job, deadline_at=late)).chosen is not None


@pytest.mark.parametrize("policy", ["fifo", "fair_share", "edf", "deadline_energy"])
def test_a_quota_that_is_used_up_delays_the_start_of_each_way(job, job_make, node_make, offered, policy):
    PoolSetting.objects.update_or_create(pk=1, defaults={"policy": policy})
    node_make("node-1", cpus=4)
    Quota.objects.create(project=job.project, device_kind="cpu", devices=2, may_borrow=False)
    run_now(estimated(job_make(name="first", training={"epochs": 7}), run_s=10 * 3600.0))
    tick()  # tells when it is expected to end
    offer = offered(job)
    starts = {line.allocation.count: line.start_s for line in offer_priced(offer).lines if line.hindrance is None}
    now_s = timezone.now().timestamp()
    assert starts.keys() == {1, 2} and starts[1] < now_s + 60 and starts[2] > now_s + 9 * 3600
    told = "hold 1 of the 2 CPU cores that its quota allows: more than 1 at once can start only when"
    assert any(told in note for note in offer.notes)
    Quota.objects.update(devices=1)
    offer = offered(job)
    assert offer_priced(offer).chosen.start_s > now_s + 9 * 3600
    assert any("hold all that its quota allows (1 CPU core)" in note for note in offer.notes)
    soon = offered(job, deadline_at=timezone.now() + HOUR)
    # Only one policy pauses a job of the project for a promise.
    assert (offer_priced(soon).chosen is not None) is (policy == "deadline_energy")
    assert any("its quota allows" in note for note in soon.notes) is (policy != "deadline_energy")


def test_a_quota_that_may_be_exceeded_or_that_others_use_delays_nothing(job, job_make, node_make, offered, people):
    node_make("node-1", cpus=4)
    quota = Quota.objects.create(project=job.project, device_kind="cpu", devices=1, may_borrow=True)
    first = estimated(job_make(name="first", training={"epochs": 7}), run_s=10 * 3600.0)
    run_now(first)
    assert offer_priced(offered(job)).chosen.start_s < timezone.now().timestamp() + 60
    Quota.objects.filter(pk=quota.pk).update(may_borrow=False)
    Job.objects.filter(pk=first.pk).update(project=people.elsewhere)
    offer = offered(job)
    assert offer_priced(offer).chosen.start_s < timezone.now().timestamp() + 60
    assert not any("quota" in note for note in offer.notes)


def test_an_offer_names_the_quota_where_more_is_only_lent(job, node_make, offered):
    node_make("node-1", cpus=4)
    quota = Quota.objects.create(project=job.project, device_kind="cpu", devices=1, may_borrow=True)
    wished = {"count": 2, "deadline_at": timezone.now() + 300 * HOUR}
    priced = offer_priced(offered(job, **wished))
    assert priced.chosen is None and "more devices than the project's quota" in priced.text
    assert any("larger quota" in change for change in priced.changes)
    Quota.objects.filter(pk=quota.pk).update(devices=2)
    assert offer_priced(offered(job, **wished)).chosen.allocation.count == 2


def test_while_a_job_has_waited_too_long_nothing_is_offered_for_a_deadline(job, job_make, node_make, offered):
    node_make("node-1", cpus=1)
    promise(estimated(job_make(name="first"), run_s=3600.0), hours=2)
    waits = queue(estimated(job_make(name="waits"), run_s=3600.0))
    Job.objects.filter(pk=waits.pk).update(queued_at=timezone.now() - 30 * HOUR)
    offer = offered(job, deadline_at=timezone.now() + timedelta(days=300))
    priced = offer_priced(offer)
    assert priced.chosen is None and priced.earliest_finish_s is None
    assert priced.text.startswith("No finish can be promised now")
    assert {line.why for line in priced.lines} == {"No finish can be promised on these devices now."}
    assert priced.changes[0] == "Ask again later, or submit it without a deadline."
    taken = offer_accept(user=job.owner, offer=offer, promised=False)
    with pytest.raises(Invalid):
        job_submit(user=job.owner, job=taken)
    assert job_submit(user=job.owner, job=taken, promised=False).state == "queued"


def test_a_line_that_just_keeps_the_deadline_is_promised_and_one_that_just_does_not_is_refused(job, node_make, offered):
    node_make("node-1", cpus=1)
    free = offered(job, deadline_at=timezone.now() + timedelta(days=300))
    takes = timedelta(seconds=offer_priced(free).chosen.latest_s - offer_priced(free).now_s)
    assert offer_priced(offered(job, deadline_at=timezone.now() + takes - timedelta(seconds=5))).chosen is None
    offer = offered(job, deadline_at=timezone.now() + takes + timedelta(seconds=60))
    taken = job_submit(user=job.owner, job=offer_accept(user=job.owner, offer=offer))
    assert taken.promised_at == taken.deadline_at


def test_a_finish_is_offered_and_promised_on_devices_kept_for_the_project(job, node_make, offered, people):
    node_make("node-1", cpus=1)
    reservation_create(
        user=people.admin, node="node-1", ends_at=timezone.now() + 24 * HOUR, purpose="course", project=people.project
    )
    offer = offered(job, deadline_at=timezone.now() + timedelta(days=300))
    assert offer_priced(offer).chosen is not None
    taken = job_submit(user=job.owner, job=offer_accept(user=job.owner, offer=offer))
    assert taken.promised_at == taken.deadline_at
    assert tick() == 1


def test_when_devices_fall_free_is_read_where_the_scheduler_has_not_told_a_start(job, node_make, ask, offered):
    node_make("node-1", cpus=2)
    offered(job)  # its program is read

    def queries_of_held(**wish):
        with CaptureQueriesContext(connection) as queries:
            assert offer_priced(ask(job, **wish)).chosen is not None
        return [query["sql"] for query in queries if 'FROM "jobs_allocation"' in query["sql"]]

    undated, dated = queries_of_held(), queries_of_held(deadline_at=timezone.now() + timedelta(days=300))
    assert len(undated) == len(dated) == 1 and "pool_node" in dated[0] and "pool_node" not in undated[0]

"""A draft that is submitted without an offer, and whose program was read before."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.errors import Invalid
from harness.estimates.models import JobEstimate
from harness.estimates.submitting import estimate_before, estimate_foreseen
from harness.jobs.control.tick import tick
from harness.jobs.drafts import job_spec_update
from harness.jobs.promises import PromiseState, promise_state
from harness.jobs.queueing import job_reserved_until
from harness.moments import moment_words
from harness.pool.models import Node, PoolSetting
from harness.pool.reservations import reservation_hold, reservation_release
from harness.rates.submitting import job_submit


@pytest.fixture
def read(job, job_make, node_make, offered):
    """Make a draft of a program that was read for an offer, which nobody took: `read(hours)` to its deadline."""
    node_make("node-1", cpus=2)
    offered(job)

    def make(hours):
        at = timezone.now() + timedelta(hours=hours)
        return job_make(budget={"deadline": at.isoformat()}, resources={"device": "cpu", "count": 1})

    return make


def test_a_draft_whose_program_was_read_is_promised_its_deadline_without_an_offer(read, tasks_sent):
    draft = read(hours=10)
    submitted = job_submit(user=draft.owner, job=draft)
    assert submitted.promised_at == submitted.deadline_at
    assert JobEstimate.objects.get(job=submitted).offer is None
    assert not [task for task, *_ in tasks_sent if task == "control.estimate_job"]


def test_a_deadline_that_it_cannot_keep_is_refused_without_an_offer(read):
    draft = read(hours=0.02)
    with pytest.raises(Invalid) as refused:
        job_submit(user=draft.owner, job=draft)
    assert refused.value.code == "deadline_refused" and refused.value.details["earliest_finish"]
    draft.refresh_from_db()
    assert (draft.state, draft.options) == ("draft", []) and not JobEstimate.objects.filter(job=draft).exists()
    assert job_submit(user=draft.owner, job=draft, promised=False).state == "queued"


def test_what_was_priced_of_another_state_of_the_draft_is_not_kept(read):
    draft = read(hours=10)
    foretold = estimate_foreseen(draft)
    job_spec_update(user=draft.owner, job=draft, spec=draft.spec | {"resources": {"device": "cpu", "count": 2}})
    draft.refresh_from_db()
    estimate_before(draft, foretold)
    assert draft.options == []


def swept(*, open_ended=True, hours=1.0):
    """Have a sweep keep all devices, as is expected until then."""
    until = timezone.now() + timedelta(hours=hours)
    return reservation_hold(
        target=Node.objects.get(), ends_at=timezone.now() + timedelta(minutes=10), planned_until=until,
        purpose="Calibration of node-1", open_ended=open_ended,
    )  # fmt: skip


def test_a_job_that_comes_while_a_sweep_keeps_every_device_is_estimated_and_told_when_that_is_over(read):
    kept, draft = swept(), read(hours=10)
    waits = job_submit(user=draft.owner, job=draft)
    assert JobEstimate.objects.get(job=waits).estimate["run_s"]["mid"] > 0
    assert (waits.state, waits.promised_at, promise_state(waits)) == ("queued", None, PromiseState.AFTER_RESERVED)
    told = waits.promise["text"]
    assert "Calibration of node-1 keeps devices for as long as it takes" in told
    assert f"until {moment_words(kept.told_end)}" in told and "in time" in told
    assert tick() == 0
    waits.refresh_from_db()
    assert "(Calibration of node-1)" in waits.waiting_text and job_reserved_until(waits) == kept.told_end
    assert promise_state(waits) == PromiseState.AFTER_RESERVED, "nothing is said twice"
    reservation_release(kept)
    tick()
    waits.refresh_from_db()
    assert waits.promised_at == waits.deadline_at


@pytest.mark.parametrize("policy", ["fifo", "edf", "fair_share"])
def test_under_any_policy_the_finish_is_asked_for_again_when_the_sweep_is_over(read, policy):
    PoolSetting.objects.update_or_create(pk=1, defaults={"policy": policy})
    kept, draft = swept(), read(hours=10)
    waits = job_submit(user=draft.owner, job=draft)
    assert promise_state(waits) == PromiseState.AFTER_RESERVED
    reservation_release(kept)
    tick()
    waits.refresh_from_db()
    assert waits.promised_at == waits.deadline_at


def test_what_has_a_known_end_is_planned_after_and_promised(read):
    kept, draft = swept(open_ended=False), read(hours=10)
    waits = job_submit(user=draft.owner, job=draft)
    assert waits.promised_at == waits.deadline_at
    assert waits.promise["finish_at"] > kept.told_end.isoformat()


def test_a_deadline_that_is_over_before_the_sweep_is_refused_all_the_same(read):
    swept(hours=5)
    draft = read(hours=4)
    with pytest.raises(Invalid) as refused:
        job_submit(user=draft.owner, job=draft)
    assert refused.value.code == "deadline_refused"


def test_a_sweep_that_takes_longer_than_was_told_is_still_waited_for_without_a_promise(read):
    kept, draft = swept(hours=-0.1), read(hours=10)
    waits = job_submit(user=draft.owner, job=draft)
    assert promise_state(waits) == PromiseState.AFTER_RESERVED
    assert f"until {moment_words(kept.ends_at)}" in waits.promise["text"]

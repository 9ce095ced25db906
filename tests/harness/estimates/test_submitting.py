"""A draft that is submitted without an offer, and whose program was read before."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from harness.errors import Invalid
from harness.estimates.models import JobEstimate
from harness.estimates.submitting import estimate_before, estimate_foreseen
from harness.jobs.drafts import job_spec_update
from harness.jobs.services import job_submit


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

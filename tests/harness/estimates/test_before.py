"""The range test that comes by itself before a run, in offers for a draft and for a bare spec."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from harness.estimates.models import Inspection, OfferRow
from harness.estimates.selectors import offer_priced
from harness.estimates.services import Asked, inspection_answer, offer_make, offer_make_spec
from harness.jobs.models import Job
from tests.harness.estimates.factories import answer

LONG = {"batch_size": 8, "epochs": 2000}
"""Another batch than the usual one, and a long run."""


def before_runs(offer: OfferRow) -> list[tuple[Any, float, float]]:
    """Of each line its devices, and time and energy of what comes before its run."""
    offer.refresh_from_db()
    priced = offer_priced(offer)
    assert priced is not None
    return [(line.allocation, line.before_s, line.before_j) for line in priced.lines]


@pytest.mark.parametrize(
    ("training", "is_tested"),
    [(LONG, True), (LONG | {"epochs": 3}, False), (LONG | {"rate_rule": "linear"}, False), ({"epochs": 2000}, False)],
)
def test_an_offer_for_a_bare_spec_counts_the_test_as_one_for_a_draft_does(
    job_make: Any, node_make: Any, training: dict[str, Any], is_tested: bool
) -> None:
    node_make("node-1", cpus=2)
    job = job_make(training=training)
    drafted = offer_make(user=job.owner, job=job, asked=Asked())
    bare = offer_make_spec(user=job.owner, dataset=job.dataset, spec=job.spec, asked=Asked())
    inspection_answer(answer(Inspection.objects.get()))
    assert before_runs(bare) == before_runs(drafted)
    assert any(before_s for _, before_s, _ in before_runs(bare)) is is_tested
    assert bare.notes == drafted.notes


def test_the_finish_that_is_asked_of_an_offer_decides_on_the_test_and_not_the_drafts_own(
    job_make: Any, node_make: Any
) -> None:
    node_make("node-1", cpus=2)
    job = job_make(training=LONG)
    soon = timezone.now() + timedelta(seconds=30)

    def before_s(deadline_at: datetime | None) -> float:
        offer = offer_make(user=job.owner, job=job, asked=Asked.of(count=1, deadline_at=deadline_at))
        inspection_answer(answer(Inspection.objects.get()))
        return max(before for _, before, _ in before_runs(offer))

    assert before_s(None) > 10
    assert before_s(soon) == 0.0
    Job.objects.update(deadline_at=soon)
    job.refresh_from_db()
    assert before_s(None) > 10

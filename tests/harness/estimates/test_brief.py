"""An offer that is asked for while the steps of another job are tried: their device is back in seconds, not minutes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from harness.estimates.brief import LEAST_S, USUAL_S, brief_ends
from harness.estimates.models import AskState, ProbeRow
from harness.estimates.probes import ANSWER_LIMIT_S
from harness.estimates.selectors import offer_priced
from harness.estimates.services import offer_probe
from harness.pool.models import Reservation


@pytest.fixture
def tried(job: Any, people: Any, node_make: Any, offered: Any) -> Any:
    """Steps of a job that are under way on the first of so many cores."""

    def make(cpus: int) -> ProbeRow:
        node_make("node-1", cpus=cpus)
        return offer_probe(user=people.owner, offer=offered(job, kind="cpu", count=1))

    return make


def starts_in_s(offer: Any) -> dict[int, float]:
    found = offer_priced(offer)
    return {line.allocation.count: line.start_s - found.now_s for line in found.lines if line.start_s is not None}


def test_the_only_device_is_offered_as_of_when_the_steps_are_made(tried, job_make, offered):
    tried(1)
    offer = offered(job_make(training={"seed": 7}))
    assert 0 < starts_in_s(offer)[1] <= USUAL_S + 1
    assert not any("eserved" in note for note in offer.notes) and "reserved" not in offer_priced(offer).text


def test_ways_with_the_device_are_offered_beside_those_that_start_now(tried, job_make, offered):
    tried(2)
    starts = starts_in_s(offered(job_make(training={"seed": 7})))
    assert starts[1] == 0 and 0 < starts[2] <= USUAL_S + 1


def test_what_is_usual_is_told_by_the_last_that_were_made(tried):
    probe, now = tried(1), timezone.now()
    for took_s in (40.0, 50.0, 400.0):
        row = ProbeRow.objects.create(inspection=probe.inspection, allocation={}, state=AskState.DONE)
        ProbeRow.objects.filter(pk=row.pk).update(sent_at=now, finished_at=now + timedelta(seconds=took_s))
    ends = brief_ends(Reservation.objects.all(), now)
    assert ends[probe.reservation] == ProbeRow.objects.get(pk=probe.pk).sent_at + timedelta(seconds=50)


def test_one_that_takes_longer_than_usual_is_expected_in_a_moment_and_no_later_than_it_is_kept(tried):
    probe, rows = tried(1), Reservation.objects.all()
    held_until = rows.get().ends_at
    late = probe.sent_at + timedelta(seconds=USUAL_S + 60)
    assert brief_ends(rows, late) == {probe.reservation: late + timedelta(seconds=LEAST_S)}
    last = probe.sent_at + timedelta(seconds=ANSWER_LIMIT_S - 1)
    assert brief_ends(rows, last) == {probe.reservation: held_until}
    ProbeRow.objects.update(state=AskState.FAILED)
    assert brief_ends(rows, late) == {}

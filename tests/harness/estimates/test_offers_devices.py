"""Offers and the devices of the pool: who is busy, reserved, too small, or gone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from django.utils import timezone

from harness.errors import Conflict, Invalid, Unavailable
from harness.estimates.models import Inspection, OfferRow
from harness.estimates.offers import job_key
from harness.estimates.openings import openings_read
from harness.estimates.selectors import offer_priced
from harness.estimates.services import (
    Asked,
    job_estimate,
    jobs_estimate,
    offer_accept,
    offer_make_workload,
)
from harness.jobs.models import Job
from harness.jobs.options import options_of
from harness.moments import moment_words
from harness.pool.models import Device, Node, Reservation
from harness.pool.reservations import reservation_hold
from harness.rates.submitting import job_submit
from scheduler.offers.values import Hindrance
from tests.harness.estimates.factories import workload_make
from tests.harness.jobs.helpers import estimated, place_now, queue, run_now


def test_devices_that_left_the_pool_lead_to_a_new_offer_and_change_nothing(job, node_make, offered):

    node_make("node-1", cpus=2)
    offer = offered(job, count=2, mode="sync")
    before = dict(job.spec)
    Device.objects.filter(index=1).delete()
    with pytest.raises(Conflict) as refused:
        offer_accept(user=offer.owner, offer=offer)
    assert refused.value.code == "offer_stale"
    fresh = OfferRow.objects.get(pk=refused.value.details["offer"])
    assert fresh.state == "ready"
    assert offer_priced(fresh).chosen is None
    job.refresh_from_db()
    assert job.spec == before
    assert job.options == []


def test_devices_that_vanish_before_the_start_lead_to_a_new_offer_and_nothing_else(job, node_make, offered):
    node_make("node-1", cpus=2)
    offer = offered(job, count=2, mode="sync")
    accepted = queue(offer_accept(user=offer.owner, offer=offer))
    assert jobs_estimate() == 0 and OfferRow.objects.count() == 1
    Device.objects.filter(index=1).update(away_since=timezone.now())
    jobs_estimate()
    jobs_estimate()
    fresh = OfferRow.objects.exclude(pk=offer.pk).get()
    assert fresh.state == "ready" and offer_priced(fresh).chosen is None
    assert options_of(Job.objects.get(pk=accepted.pk))[0].count == 2
    (told,) = accepted.events.filter(message__contains="A new offer is on the tab Cost")
    assert told.data["offer"] == fresh.pk


def test_no_node_is_said_so(job, ask):
    with pytest.raises(Unavailable, match="No node is up") as refused:
        ask(job)
    assert "make run" in refused.value.hint and "dlh node join" in refused.value.hint


def test_zero_devices_are_refused(job, ask, node_make):
    node_make("node-1")
    with pytest.raises(Invalid, match="at least one device"):
        ask(job, count=0)


def test_a_job_of_fixed_devices_is_kept_off_those_without_the_memory_for_it(job_make, node_make):
    for name, memory_bytes in (("large", 16 << 30), ("small", 601 << 20)):
        node_make(name, cpus=1, gpus=1)
        Device.objects.filter(node__name=name, kind="cuda").update(model_name=name, memory_bytes=memory_bytes)
    job = job_make(resources={"device": "cuda", "count": 1})
    Inspection.objects.create(
        key=job_key(job), state="done", workload=workload_make().to_dict(), sent_at=timezone.now()
    )
    job_submit(user=job.owner, job=job)
    job_estimate(job.pk)
    job.refresh_from_db()
    assert {option.model_name for option in options_of(job)} == {"large"}


def test_busy_devices_put_the_start_off(job, job_make, node_make, offered):
    from harness.jobs.models import Allocation, JobAttempt

    node_make("node-1", cpus=1)
    other = job_make()
    attempt = JobAttempt.objects.create(job=other, number=1, plan={})
    Allocation.objects.create(device=Device.objects.get(), job=other, attempt=attempt, rank=0)
    type(other).objects.filter(pk=other.pk).update(state="running", eta_s=500.0)
    offer = offered(job)
    line = offer_priced(offer).lines[0]
    assert line.start_s == pytest.approx(timezone.now().timestamp() + 500, abs=60)
    assert openings_read(()).guessed is False
    type(other).objects.filter(pk=other.pk).update(eta_s=None)
    assert any("are a guess" in note for note in offered(job).notes)


def test_a_job_that_was_placed_a_moment_ago_holds_its_device_for_as_long_as_it_is_estimated(
    job, job_make, node_make, offered
):
    node_make("node-1", cpus=1)
    other = estimated(job_make(), run_s=50.0, slowdown=1.2)
    place_now(other)
    offer = offered(job)
    assert offer_priced(offer).lines[0].start_s == pytest.approx(timezone.now().timestamp() + 60, abs=20)
    assert not any("are a guess" in note for note in offer.notes)


def test_jobs_on_devices_that_are_not_offered_put_no_start_off(job, job_make, node_make, offered):
    node_make("node-1", cpus=1)
    run_now(job_make(name="other"))
    node_make("node-2", cpus=1)
    Node.objects.filter(name="node-1").update(state="drain")
    line = offer_priced(offered(job)).lines[0]
    assert line.start_s == pytest.approx(timezone.now().timestamp(), abs=60)


def test_a_run_is_offered_behind_a_reservation_that_it_would_reach_into(job, people, node_make, offered):
    node_make("node-1", cpus=1)
    day = timedelta(days=1)
    begins_at, ends_at = timezone.now() + timedelta(seconds=2), timezone.now() + 2 * day
    kept = reservation_hold(target=Node.objects.get(), starts_at=begins_at, ends_at=ends_at, purpose="Course")
    assert {line.start_s for line in offer_priced(offered(job)).lines} == {ends_at.timestamp()}
    type(kept).objects.update(project=people.project)
    line = offer_priced(offered(job)).lines[0]
    assert line.start_s == pytest.approx(timezone.now().timestamp(), abs=60)


def test_devices_reserved_for_others_are_not_offered(job, node_make, offered):
    node_make("node-1", cpus=2)
    ends_at = timezone.now() + timedelta(hours=1)
    reservation_hold(target=Device.objects.get(index=0), ends_at=ends_at, purpose="Calibration")
    offer = offered(job)
    assert {line.allocation.count for line in offer_priced(offer).lines} == {1}
    assert any("Reserved devices are not offered (1 reservation," in note for note in offer.notes)


@pytest.mark.parametrize("open_ended", [False, True])
def test_where_all_is_reserved_ways_start_when_that_is_told_to_end(job, node_make, offered, open_ended):
    node_make("node-1", cpus=2)
    ends_at, told = timezone.now() + timedelta(hours=2), timezone.now() + timedelta(hours=1)
    reservation_hold(
        target=Node.objects.get(), ends_at=ends_at, planned_until=told, purpose="Calibration", open_ended=open_ended
    )
    offer = offered(job)
    found = offer_priced(offer)
    back_s = (told if open_ended else ends_at).timestamp()
    assert found.lines and all(line.start_s == pytest.approx(back_s) for line in found.lines)
    assert found.text.startswith("Every device that this job could take is reserved for something else. After that: ")
    assert all(("no finish is promised" in line.why) is open_ended for line in found.lines)
    assert any(note.startswith("All devices are reserved (1 reservation, the first ends") for note in offer.notes)


def test_a_deadline_after_what_keeps_everything_is_promised_only_where_that_has_an_end(job, node_make, offered):
    node_make("node-1", cpus=1)
    ends_at = timezone.now() + timedelta(hours=1)
    kept = reservation_hold(target=Device.objects.get(), ends_at=ends_at, purpose="Calibration", open_ended=True)
    deadline_at = ends_at + timedelta(days=1)
    found = offer_priced(offered(job, deadline_at=deadline_at))
    assert found.chosen is None and found.lines
    assert found.text == "Every device that this job could take is reserved for something else."
    assert "when the first reservation ends" in found.changes[0], "nobody is told to start nodes"
    Reservation.objects.filter(pk=kept.pk).update(open_ended=False)
    found = offer_priced(offered(job, deadline_at=deadline_at))
    assert found.chosen.start_s == pytest.approx(ends_at.timestamp())


def test_what_may_be_renewed_until_a_known_moment_is_told_to_end_then(job, node_make, offered):
    node_make("node-1", cpus=2)
    soon, most = (timezone.now() + timedelta(minutes=minutes) for minutes in (4, 20))
    reservation_hold(target=Device.objects.get(index=0), ends_at=soon, planned_until=most, purpose="A range test")
    assert any(f"(1 reservation, the first ends {moment_words(most)})" in note for note in offered(job).notes)
    later = most - timedelta(minutes=5)
    reservation_hold(target=Device.objects.get(index=1), ends_at=later, purpose="Calibration")
    assert any(f"(2 reservations, the first ends {moment_words(later)})" in note for note in offered(job).notes)


def test_devices_that_are_merely_reserved_are_not_told_to_be_missing(job, node_make, offered):
    node_make("node-1", cpus=1, gpus=2)
    ends_at = timezone.now() + timedelta(hours=1)
    first, second = Device.objects.filter(kind="cuda").order_by("index")
    reservation_hold(target=first, ends_at=ends_at, purpose="Calibration")
    found = offer_priced(offered(job, kind="cuda", model_name="gpu", count=2))
    until = f"{ends_at:%Y-%m-%d %H:%M} UTC"
    assert found.text == f"Of 2 GPUs (gpu) only 1 can be had now: others are reserved, the first until {until}."
    assert any("when the first of these reservations ends" in change for change in found.changes)
    assert any(change.startswith("Ask for 1: 1 GPU (gpu)") for change in found.changes)
    assert offer_priced(offered(job, kind="cuda", count=3)).text.endswith(": 1 at most."), "it has two in all"
    reservation_hold(target=second, ends_at=ends_at + timedelta(hours=1), purpose="Calibration")
    found = offer_priced(offered(job, kind="cuda", model_name="gpu"))
    assert found.text.startswith("Every GPU (gpu) that this job could take is reserved for something else,")
    assert found.text.endswith(f"the first until {until}.")
    assert any(change.startswith("Leave the devices open") for change in found.changes)


def test_memory_that_a_person_fixed_is_shared_out_among_ranks(job_make, node_make, offered):
    node_make("node-1", cpus=2)
    job = job_make(resources={"memory_gib": 1.0})
    limits = {
        (line.allocation.count, line.allocation.mode): line.memory_limit_bytes + (256 << 20)
        for line in offer_priced(offered(job)).lines
    }
    assert limits == {(1, "single"): 1 << 30, (2, "single"): 1 << 30, (2, "sync"): 1 << 29}


def test_five_models_are_priced_on_a_large_pool(people, node_make):
    for number in range(4):
        node_make(f"node-{number}", cpus=64, gpus=8, memory_bytes=1 << 40)
    operators = workload_make().operators * 40
    bodies = [{**workload_make(batch=64).to_dict(), "epochs": epochs} for epochs in (5, 10, 20, 40, 80)]
    ways = {("cpu", count, "sync") for count in range(2, 65)} | {("cuda", count, "sync") for count in range(2, 9)}
    ways |= {("cpu", count, "single") for count in range(1, 65)} | {("cuda", 1, "single")}
    energies = []
    for body in bodies:
        body["operators"] = [{**item, "shape": dict(item["shape"])} for item in [vars(o) for o in operators]]
        offer = offer_priced(offer_make_workload(user=people.owner, workload=body, asked=Asked()))
        priced = {(line.allocation.kind, line.allocation.count, line.allocation.mode): line for line in offer.lines}
        assert priced.keys() == ways
        assert all(line.feasible and line.finish_s.high > line.start_s for line in offer.lines)
        least = min(line.estimate.energy_j.mid for line in offer.lines)
        assert offer.chosen.estimate.energy_j.mid == least
        energies.append(least)
    # Each has twice the epochs of the one before, and starts and ends once.
    assert all(1.0 < after / before <= 2.0 for before, after in pairwise(energies))


def test_a_pipeline_is_offered_where_it_is_wished_and_keeps_its_width(job, node_make, offered):
    node_make("node-1", cpus=4)
    assert "pipeline" not in {line.allocation.mode for line in offer_priced(offered(job)).lines}
    offer = offered(job, mode="pipeline", count=2)
    chosen = offer_priced(offer).chosen
    assert (chosen.allocation.mode, chosen.allocation.count) == ("pipeline", 2)
    assert len(set(chosen.allocation.batch_split)) == 1  # every stage sees all rows
    accepted = offer_accept(user=offer.owner, offer=offer)
    assert accepted.resolved["spec"]["mode"] == "pipeline"
    assert accepted.resolved["spec"]["pipeline"]["stages"] == 2
    assert [(option.count, option.mode) for option in options_of(accepted)] == [(2, "pipeline")]


def test_a_model_that_no_device_holds_is_offered_as_a_pipeline_over_several(people, node_make):
    node_make("node-1", cpus=0, gpus=2)
    Device.objects.update(memory_bytes=7 << 30)
    large = replace(workload_make(batch=32), parameter_bytes=1 << 30, gradient_bytes=1 << 30, optimizer_bytes=2 << 30)
    asked = Asked.of(kind="cuda")
    priced = offer_priced(offer_make_workload(user=people.owner, workload=large.to_dict(), asked=asked))
    alone = [line for line in priced.lines if line.allocation.mode != "pipeline"]
    assert alone and all(line.hindrance is Hindrance.MEMORY for line in alone)
    assert priced.chosen is not None and priced.chosen.allocation.mode == "pipeline"
    small = offer_priced(offer_make_workload(user=people.owner, workload=workload_make().to_dict(), asked=asked))
    assert all(line.allocation.mode != "pipeline" for line in small.lines)

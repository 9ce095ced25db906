"""Unlike devices in offers: slowed ones are priced as slow as they are declared, mixtures are offered and placed."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from harness.errors import Conflict
from harness.estimates.groups import groups_read
from harness.estimates.models import Inspection, JobEstimate, OfferRow
from harness.estimates.renewing import NO_WAY_LEFT, OFFER_AWAY, OFFER_LOST
from harness.estimates.selectors import offer_lines, offer_priced
from harness.estimates.services import estimates_renew, inspection_answer, job_estimate, jobs_estimate, offer_accept
from harness.estimates.submitting import estimate_before, estimate_foreseen
from harness.jobs.control.tick import tick
from harness.jobs.models import Allocation, Job, JobEvent
from harness.jobs.options import options_of
from harness.pool.models import Device, Node, NodeState
from harness.pool.services import device_slow
from tests.harness.estimates.factories import answer
from tests.harness.jobs.helpers import queue
from tests.scheduler.made_workloads import workload
from worker.plan import RunPlan

WORK = workload(layers=4, filters=48, batch=32)
SLOW = "core, declared 3 times as slow"


@pytest.fixture
def unlike(node_make, people):
    """A node of so many cores, the last ones of which are declared three times as slow."""

    def make(fast: int, slow: int, factor: float = 3.0) -> None:
        node_make("node-1", cpus=fast + slow)
        for index in range(fast, fast + slow):
            device_slow(user=people.admin, node="node-1", kind="cpu", index=index, factor=factor)

    return make


@pytest.fixture
def offered(read_as):
    """An offer of a program whose steps are long enough to be shared out; the node has read it."""
    return partial(read_as, WORK)


def by_model(offer):
    return {(line.allocation.model_name, line.allocation.mode): line for line in offer_priced(offer).lines}


def test_a_slowed_device_is_estimated_that_many_times_slower_and_named_so(job, unlike, offered):
    unlike(1, 1)
    offer = offered(job)
    lines = by_model(offer)
    fast, slow = lines["core", "single"], lines[SLOW, "single"]
    assert slow.estimate.step_s.mid == pytest.approx(3 * fast.estimate.step_s.mid)
    steps_s = WORK.epochs * WORK.steps_per_epoch * fast.estimate.step_s.mid
    assert slow.estimate.run_s.mid == pytest.approx(fast.estimate.run_s.mid + 2 * steps_s, rel=0.02)
    assert "emulated" in slow.estimate.note
    (note,) = (note for note in offer.notes if note.startswith("Emulated: "))
    assert SLOW in note


def test_a_deadline_that_only_the_undeclared_device_keeps_is_never_promised_on_the_slow_one(job, unlike, offered):
    unlike(1, 1)
    fast = by_model(offered(job))["core", "single"].estimate.run_s.high
    offer = offered(job, count=1, deadline_at=timezone.now() + timedelta(seconds=1.2 * fast))
    assert by_model(offer)[SLOW, "single"].hindrance == "deadline"
    accepted = offer_accept(user=offer.owner, offer=offer)
    queue(accepted)
    assert tick() == 1
    assert Allocation.objects.get(job=accepted).device.index == 0


def test_a_mixture_is_offered_in_words_and_placed_as_it_was_taken(job_make, unlike, offered):
    unlike(2, 2)
    offer = offered(job_make(training={"batch_size": 32}), count=3)
    views = {view.line.allocation.model_name: view for view in offer_lines(offer_priced(offer))}
    name = f"mixed: 1 core + 2 {SLOW}"
    view = views[name]
    assert view.words.startswith(f"3 CPU cores ({name}), one rank each, rows of a step: 1 x ")
    assert sum(view.line.allocation.batch_split) == 32
    accepted = offer_accept(user=offer.owner, offer=offer, line=view.place)
    assert [option.parts for option in options_of(accepted)] == [(("core", 1), (SLOW, 2))]
    queue(accepted)
    assert tick() == 1
    held = Allocation.objects.filter(job=accepted).select_related("device")
    assert sorted(row.device.slowdown for row in held) == [1.0, 3.0, 3.0]
    attempt = accepted.attempts.get()
    plan = RunPlan.from_dict(attempt.plan)
    assert plan.mode == "sync" and plan.split is not None
    assert sorted(plan.split.rows) == sorted(view.line.allocation.batch_split)
    assert attempt.option["parts"] == [["core", 1], [SLOW, 2]]


def test_even_shares_are_priced_where_the_spec_wants_them(job_make, unlike, offered):
    unlike(1, 1)
    priced = offer_priced(offered(job_make(resources={"split": "even"})))
    (line,) = (line for line in priced.lines if line.allocation.parts)
    assert line.allocation.batch_split == (16, 16)


def test_a_mixture_that_the_pool_has_no_more_leads_to_a_new_offer(job, unlike, offered, people):
    unlike(1, 1)
    offer = offered(job, count=2, mode="sync")
    (chosen,) = (view for view in offer_lines(offer_priced(offer)) if view.line.allocation.parts)
    device_slow(user=people.admin, node="node-1", kind="cpu", index=1, factor=1.0)
    with pytest.raises(Conflict) as refused:
        offer_accept(user=offer.owner, offer=offer, line=chosen.place)
    assert refused.value.code == "offer_stale"
    fresh = offer_priced(OfferRow.objects.get(pk=refused.value.details["offer"]))
    assert not any(line.allocation.parts for line in fresh.lines)


def test_a_waiting_job_of_fixed_devices_is_estimated_again_when_one_is_declared_slower(job_make, node_make, people):
    node_make("node-1", cpus=2)
    job = job_make(resources={"device": "cpu", "count": 2}, mode="sync")
    queue(job)
    assert job_estimate(job.pk) is None
    inspection_answer(answer(Inspection.objects.get(), workload=WORK.to_dict()))
    job.refresh_from_db()
    before = options_of(job)[0]
    assert (before.model_name, before.parts) == ("core", ())
    device_slow(user=people.admin, node="node-1", kind="cpu", index=1, factor=3.0)
    assert estimates_renew() == 1
    job.refresh_from_db()
    after = options_of(job)[0]
    assert after.parts == (("core", 1), (SLOW, 1)) and 0 < after.rate_per_s < before.rate_per_s
    assert tick() == 1


def test_what_a_person_took_is_not_changed_behind_their_back(job, unlike, offered, people):
    unlike(1, 1)
    offer = offered(job, count=2, mode="sync")
    (chosen,) = (view for view in offer_lines(offer_priced(offer)) if view.line.allocation.parts)
    accepted = offer_accept(user=offer.owner, offer=offer, line=chosen.place)
    queue(accepted)
    device_slow(user=people.admin, node="node-1", kind="cpu", index=1, factor=5.0)
    assert estimates_renew() == 0
    accepted = Job.objects.get(pk=accepted.pk)
    assert JobEstimate.objects.get(job=accepted).estimate["allocation"]["parts"] == [["core", 1], [SLOW, 1]]
    assert tick() == 0 and "mixed: 1 core + 1" in why_it_waits(accepted)
    assert JobEvent.objects.filter(job=accepted, message__contains="A new offer is on the tab Cost").count() == 1
    assert estimates_renew() == 0 and OfferRow.objects.filter(job=accepted).count() == 2


def why_it_waits(job: Job) -> str:
    return Job.objects.get(pk=job.pk).waiting_text


def test_several_pipelines_are_offered_where_they_are_wished_with_the_stages_of_the_spec(job_make, node_make, offered):
    node_make("node-1", cpus=4)
    job = job_make(mode="pipeline+sync", resources={"count": 4}, pipeline={"stages": 2})
    offer = offered(job, count=4)
    (line,) = (line for line in offer_priced(offer).lines if line.feasible)
    assert (line.allocation.mode, line.allocation.batch_split) == ("pipeline+sync", (16, 16, 16, 16))
    accepted = offer_accept(user=offer.owner, offer=offer)
    assert [(option.count, option.mode) for option in options_of(accepted)] == [(4, "pipeline+sync")]
    assert accepted.resolved["spec"]["pipeline"]["stages"] == 2


def test_groups_tell_which_devices_share_a_node(unlike, node_make):
    unlike(1, 1)
    node_make("node-2", cpus=2)
    sizes = {group.model_name: dict(zip(group.nodes, group.sizes, strict=True)) for group in groups_read(None)}
    (fast, slow) = (sizes["core"], sizes[SLOW])
    assert sorted(fast.values()) == [1, 2] and list(slow.values()) == [1]
    assert slow.keys() < fast.keys() and fast[next(iter(slow))] == 1


def test_devices_that_would_only_delay_each_other_are_not_said_to_be_missing(job, unlike, offered):
    unlike(1, 1, factor=100.0)
    text = offer_priced(offered(job, count=2)).text
    assert text == (
        "The pool has no 2 devices of one model together that take work: 1 at most; nor unlike ones that would be "
        "quicker together."
    )


def test_a_job_that_no_way_is_left_for_waits_as_its_spec_says_and_is_estimated_again_when_one_is(
    job_make, unlike, read_as, people
):
    unlike(2, 0)
    job = job_make(mode="sync", resources={"device": "cpu", "count": 2})
    read_as(WORK, job)
    queue(job)
    job_estimate(job.pk)
    assert [option.count for option in options_of(Job.objects.get(pk=job.pk))] == [2]
    device_slow(user=people.admin, node="node-1", kind="cpu", index=1, factor=100.0)
    assert jobs_estimate() == 1
    waits = Job.objects.get(pk=job.pk)
    assert waits.options == [] and not JobEstimate.objects.filter(job=job).exists()
    assert waits.events.latest("pk").message == NO_WAY_LEFT
    assert jobs_estimate() == 0 and waits.events.filter(message=NO_WAY_LEFT).count() == 1
    device_slow(user=people.admin, node="node-1", kind="cpu", index=1, factor=3.0)
    assert jobs_estimate() == 1 and Job.objects.get(pk=job.pk).options


def test_a_device_that_is_away_for_a_moment_takes_no_estimate_back(job_make, unlike, read_as):
    unlike(2, 0)
    job = job_make(mode="sync", resources={"device": "cpu", "count": 2})
    read_as(WORK, job)
    queue(job)
    job_estimate(job.pk)
    Device.objects.filter(index=1).update(away_since=timezone.now())
    assert jobs_estimate() == 0 and JobEstimate.objects.filter(job=job).exists()
    assert not job.events.filter(message=NO_WAY_LEFT).exists()
    Device.objects.filter(index=1).delete()
    assert jobs_estimate() == 1 and job.events.filter(message=NO_WAY_LEFT).count() == 1


def test_an_accepted_offer_whose_device_is_away_for_a_moment_is_not_told_as_lost(job, unlike, offered):
    unlike(2, 0)
    accepted = queue(offer_accept(user=job.owner, offer=offered(job, count=2, mode="sync"), elastic=False))
    Device.objects.filter(index=1).update(away_since=timezone.now())
    assert jobs_estimate() == 0 and jobs_estimate() == 0 and OfferRow.objects.filter(job=job).count() == 2
    assert [accepted.events.filter(message__startswith=told).count() for told in (OFFER_AWAY, OFFER_LOST)] == [1, 0]
    assert tick() == 0 and "node-1 does not see 1 CPU core (core) of its own now." in why_it_waits(accepted)
    Device.objects.filter(index=1).update(away_since=None)
    assert tick() == 1
    Job.objects.filter(pk=job.pk).update(state="queued")
    Device.objects.filter(index=1).delete()
    jobs_estimate()
    assert accepted.events.filter(message__startswith=OFFER_LOST).count() == 1


def test_devices_that_are_away_when_their_line_is_taken_are_not_told_as_gone(job, unlike, offered):
    unlike(2, 0)
    offer = offered(job, count=2, mode="sync")
    Device.objects.filter(index=1).update(away_since=timezone.now())
    with pytest.raises(Conflict, match="has them now; the pool has them, and they may be back in a moment") as refused:
        offer_accept(user=offer.owner, offer=offer)
    assert refused.value.code == "offer_stale"


@pytest.mark.parametrize("state", [NodeState.DRAIN, NodeState.DOWN])
def test_devices_of_a_node_that_takes_no_work_are_not_told_as_back_in_a_moment(job, unlike, offered, state):
    unlike(2, 0)
    offer = offered(job, count=2, mode="sync")
    Node.objects.update(state=state)
    with pytest.raises(Conflict, match=r"no node that takes work has them now\."):
        offer_accept(user=offer.owner, offer=offer)


def test_the_history_of_a_draft_does_not_say_that_it_waits(job_make, unlike, read_as, people):
    unlike(2, 0)
    later = (timezone.now() + timedelta(hours=10)).isoformat()
    draft = job_make(mode="sync", resources={"device": "cpu", "count": 2}, budget={"deadline": later})
    read_as(WORK, draft)
    estimate_before(draft, estimate_foreseen(draft))
    kept = JobEstimate.objects.get(job=draft)
    device_slow(user=people.admin, node="node-1", kind="cpu", index=1, factor=100.0)
    assert estimates_renew() == 0 and JobEstimate.objects.get(job=draft).estimate == kept.estimate
    assert not draft.events.filter(message=NO_WAY_LEFT).exists()

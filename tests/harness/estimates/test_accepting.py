"""Other devices for a job that waits: never behind the back of a promise, never for one that has just begun."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from harness.errors import Conflict, Invalid
from harness.estimates import accepting
from harness.estimates.accepting import estimate_keep
from harness.estimates.models import JobEstimate
from harness.estimates.offers import job_key
from harness.estimates.selectors import offer_priced
from harness.estimates.services import Asked, offer_accept
from harness.jobs.control.effects import events_apply
from harness.jobs.control.tick import tick
from harness.jobs.drafts import job_spec_update
from harness.jobs.mode import job_mode
from harness.jobs.models import Allocation, Checkpoint, Job
from harness.jobs.options import options_of
from harness.jobs.promises import PromiseState, promise_told
from harness.jobs.services import job_pause, job_resume, program_file_write
from harness.jobs.taken import spec_named
from harness.pool.reservations import reservation_hold
from harness.rates.submitting import job_submit
from scheduler.estimation.values import Interval
from scheduler.offers.values import Mark
from tests.harness.jobs.helpers import event, queue, run_now
from worker.events import Outcome


@pytest.fixture
def owner_offer(offered):
    """The offer that the owner gets who names nothing beside the spec."""

    def make(job):
        asked = Asked.wished(spec_named(job.spec, job.taken))
        return offered(job, kind=asked.wish.kind, count=asked.wish.count)

    return make


def waiting(job, *, promised=True):
    job = queue(job)
    later = timezone.now() + timedelta(days=300)
    Job.objects.filter(pk=job.pk).update(deadline_at=later, promised_at=later if promised else None)
    job.refresh_from_db()
    return job


def test_a_promise_is_asked_for_anew_and_kept(job, node_make, offered):
    node_make("node-1", cpus=2)
    job = waiting(job)
    taken = offer_accept(user=job.owner, offer=offered(job))
    taken.refresh_from_db()
    assert taken.promised_at == taken.deadline_at
    assert taken.promise["text"].endswith("this finish is promised.")


def test_a_line_of_devices_that_are_all_reserved_can_be_taken(job, node_make, offered):
    node = node_make("node-1", cpus=2)
    reservation_hold(target=node, ends_at=timezone.now() + timedelta(hours=1), purpose="Calibration", open_ended=True)
    taken = offer_accept(user=job.owner, offer=offered(job))
    assert taken.spec["resources"]["count"]


def test_devices_number_and_mode_that_came_with_a_line_are_open_in_the_next_offer(job, node_make, owner_offer):
    node_make("node-1", cpus=2)
    offer = owner_offer(job)
    line = next(at for at, line in enumerate(offer_priced(offer).lines) if line.allocation.mode == "sync")
    taken = offer_accept(user=job.owner, offer=offer, line=line)
    assert (taken.spec["resources"]["device"], taken.spec["resources"]["count"], taken.spec["mode"]) == (
        "cpu", 2, "sync",
    )  # fmt: skip
    again = owner_offer(taken)
    assert [again.wish[name] for name in ("kind", "count", "mode")] == [None, None, None]
    guesses = {guess["field"]: guess["reason"] for guess in taken.resolved["guesses"]}
    assert guesses["resources.count"] == guesses["resources.device"] == "The offer that was taken has it."


def test_what_a_person_fixed_binds_the_next_offer_which_names_fields_and_the_way_out(job_make, node_make, owner_offer):
    node_make("node-1", cpus=2)
    job = job_make(resources={"count": 2}, mode="sync")
    taken = offer_accept(user=job.owner, offer=owner_offer(job))
    assert "count" not in taken.taken and taken.taken["device"] == "cpu"
    again = owner_offer(taken)
    assert [again.wish[name] for name in ("kind", "count", "mode")] == [None, 2, "sync"]
    assert again.notes[0].startswith("Bound to what you fixed: 2 devices (resources.count), mode sync (mode). To have")
    assert again.notes[0].endswith("set these to auto in the spec, or leave them open when you ask.")
    whys = {(line.allocation.count, line.allocation.mode): line.why for line in offer_priced(again).lines}
    assert whys[2, "single"] == "You asked for mode sync (mode)."
    assert whys[1, "single"] == "You asked for 2 devices (resources.count), mode sync (mode)."


def test_devices_that_would_break_it_are_refused_and_nothing_changes(job, node_make, offered, monkeypatch):
    node_make("node-1", cpus=2)
    job = waiting(job)
    offer = offered(job)
    Job.objects.filter(pk=job.pk).update(options=[])
    why = promise_told(PromiseState.NOT_PROMISED, "The devices are promised to other jobs.")
    told = {"promised_at": None, "promise": why}
    monkeypatch.setattr(accepting, "job_admit_again", lambda job: told)
    with pytest.raises(Conflict) as refused:
        offer_accept(user=job.owner, offer=offer)
    assert refused.value.code == "promise_lost"
    job.refresh_from_db()
    assert (job.options, job.promised_at) == ([], job.deadline_at)


def test_a_job_that_began_meanwhile_keeps_its_own_devices(job, node_make, offered, monkeypatch):
    node_make("node-1", cpus=2)
    job = waiting(job, promised=False)
    offer = offered(job)
    before = Job.objects.get(pk=job.pk).options
    monkeypatch.setattr(accepting, "_fresh", lambda *_: Job.objects.filter(pk=job.pk).update(state="placed"))
    with pytest.raises(Conflict) as refused:
        offer_accept(user=job.owner, offer=offer)
    assert refused.value.code == "wrong_state"
    job.refresh_from_db()
    assert job.options == before


def test_another_deadline_for_a_job_that_waits_is_refused_and_not_replaced(job, node_make, offered):
    node_make("node-1", cpus=2)
    job = waiting(job)
    assert offered(job).deadline_at == offered(job, deadline_at=job.deadline_at).deadline_at == job.deadline_at
    for asked in ({"deadline_at": timezone.now() + timedelta(minutes=1)}, {"names_deadline": True}):
        with pytest.raises(Invalid) as refused:
            offered(job, **asked)
        assert refused.value.field == "deadline"
        assert "its deadline was fixed when it was submitted" in refused.value.message
    Job.objects.filter(pk=job.pk).update(deadline_at=None)
    job.refresh_from_db()
    with pytest.raises(Invalid, match=r"submitted \(none\)"):
        offered(job, deadline_at=timezone.now() + timedelta(minutes=1))


def test_a_paused_job_goes_on_with_the_devices_of_another_line(job, node_make, offered):
    node_make("node-1", cpus=2)
    queue(job)
    job_pause(user=job.owner, job=job)
    offer = offered(job, count=2, mode="sync")
    assert offer_accept(user=job.owner, offer=offer, elastic=False).state == "paused"
    (way,) = options_of(job_resume(user=job.owner, job=Job.objects.get(pk=job.pk)))
    assert (way.count, way.mode) == (2, "sync")


def test_the_mode_of_a_line_that_a_paused_job_took_is_told_as_such_before_and_while_it_runs(job, node_make, offered):
    node_make("node-1", cpus=2)
    attempt = run_now(job_spec_update(user=job.owner, job=job, spec=job.spec | {"resources": {"count": 2}}))
    assert job_mode(attempt.job)[0] == "sync"
    job = job_pause(user=job.owner, job=attempt.job)
    events_apply(job.pk, [event(job, "exited", 5, rank=-1, outcome=Outcome.PAUSED, node="node-1")])
    job.refresh_from_db()
    offer_accept(user=job.owner, offer=offered(job, count=2, kind="cpu", mode="async"), elastic=False)
    told = ("async", "the line of an offer that was taken has it")
    assert job_mode(Job.objects.get(pk=job.pk)) == told
    job_resume(user=job.owner, job=Job.objects.get(pk=job.pk))
    assert tick() == 1
    job.refresh_from_db()
    assert job.attempts.get(number=job.token).run_plan.mode == "async" and job_mode(job) == told


def test_an_offer_of_a_paused_job_is_of_what_is_left_of_it_and_its_estimate_is_of_all(job, node_make, offered):
    node_make("node-1", cpus=2)
    whole = {line.allocation: line.estimate for line in offer_priced(offered(job)).lines}
    queue(job)
    job_pause(user=job.owner, job=job)
    Job.objects.filter(pk=job.pk).update(step=80, steps_total=100)
    Checkpoint.objects.create(job=job, name="step-00000075", step=75, epoch=1)
    job.refresh_from_db()
    offer = offered(job)
    priced = offer_priced(offer)
    assert priced.left == pytest.approx(0.25)
    assert any("25 % of it" in note for note in offer.notes)
    for line in priced.lines:
        estimate, run = whole[line.allocation], line.estimate.run_s
        assert run.high == pytest.approx(0.25 * estimate.run_s.high)
        assert line.finish_s.high - line.start_s == pytest.approx(run.high)
        assert line.estimate.energy_j.mid == pytest.approx(0.25 * estimate.energy_j.mid)
        assert line.estimate.step_s == estimate.step_s
    offer_accept(user=job.owner, offer=offer)
    job.refresh_from_db()
    kept = whole[priced.chosen.allocation]
    assert JobEstimate.objects.get(job=job).estimate["run_s"]["mid"] == pytest.approx(kept.run_s.mid)
    assert options_of(job)[0].run_s == pytest.approx(kept.run_s.mid)


def test_accepting_fixes_devices_in_the_spec_and_gives_the_scheduler_its_options(job, node_make, offered):
    node_make("node-1", cpus=2)
    deadline = timezone.now() + timedelta(days=300)
    offer = offered(job, deadline_at=deadline, count=2, kind="cpu", mode="sync")
    accepted = offer_accept(user=offer.owner, offer=offer)
    accepted.refresh_from_db()
    assert accepted.spec["resources"]["device"] == "cpu"
    assert accepted.spec["resources"]["count"] == 2
    assert accepted.spec["mode"] == "sync"
    assert accepted.deadline_at == deadline
    first = options_of(accepted)[0]
    assert (first.kind, first.model_name, first.count, first.mode) == ("cpu", "core", 2, "sync")
    assert first.rate_per_s > 0
    assert accepted.slowdown > 1
    assert job_key(accepted) == offer.inspection.key
    kept = JobEstimate.objects.get(job=accepted)
    assert kept.offer == offer
    assert kept.estimate["allocation"]["count"] == 2


def test_a_draft_whose_spec_yaml_was_edited_takes_a_line_at_once_and_keeps_the_edit(job, node_make, offered):
    node_make("node-1", cpus=2)
    path = settings.STORE.job(job.pk).program / "spec.yaml"
    text = re.sub(r"^  epochs: \d+$", "  epochs: 77", path.read_text(), flags=re.MULTILINE)
    job = program_file_write(user=job.owner, job=job, name="spec.yaml", text=text)
    offer = offered(job, deadline_at=timezone.now() + timedelta(days=300), count=2, kind="cpu", mode="sync")
    taken = offer_accept(user=offer.owner, offer=offer)
    assert "epochs: 77" in path.read_text() and "count: 2" in path.read_text()
    assert taken.program_edited and job_key(taken) == offer.inspection.key


def test_what_only_the_mode_before_knew_is_left_open_in_the_one_that_is_taken(job, node_make, offered):
    node_make("node-1", cpus=2)
    wish = {"mode": "async", "resources": {"count": 2}, "training": {"backup": 1, "epochs": 3}}
    job = job_spec_update(user=job.owner, job=job, spec=job.spec | wish)
    job = offer_accept(user=job.owner, offer=offered(job, count=2, kind="cpu", mode="sync"))
    assert job.spec["mode"] == "sync" and job.spec["training"]["epochs"] == 3
    assert job.spec["training"]["backup"] == job.spec["training"]["staleness"] == "auto"


def test_a_draft_of_any_mode_takes_a_line_of_mode_async_at_once(job, node_make, offered):
    node_make("node-1", cpus=2)
    job = offer_accept(user=job.owner, offer=offered(job, count=2, kind="cpu", mode="async"))
    assert job.spec["mode"] == "async" and job.resolved["spec"]["training"]["staleness"] == 8


@pytest.mark.parametrize("rule", ["auto", "linear", "range", "trials"])
def test_a_draft_with_a_batch_of_its_own_takes_a_line_at_once_and_keeps_its_rate_rule(job, node_make, offered, rule):
    node_make("node-1", cpus=2)
    wish = {"training": {"batch_size": 37, "epochs": 3, "rate_rule": rule}}
    job = job_spec_update(user=job.owner, job=job, spec=job.spec | wish)
    before = job.resolved["spec"]["training"]
    job = offer_accept(user=job.owner, offer=offered(job, count=2, kind="cpu"))
    after = job.resolved["spec"]["training"]
    assert job.spec["resources"]["count"] == 2
    assert (after["learning_rate"], after["rate_rule"]) == (before["learning_rate"], before["rate_rule"])


def test_not_elastic_leaves_the_scheduler_one_option(job, node_make, offered):
    node_make("node-1", cpus=2)
    job = offer_accept(user=job.owner, offer=offered(job), elastic=False)
    assert len(options_of(job)) == 1


def test_a_faster_line_than_the_recommended_one_is_what_the_job_runs_on(job, node_make, offered):
    node_make("node-1", cpus=4)
    offer = offered(job, deadline_at=timezone.now() + timedelta(days=300), kind="cpu")
    priced = offer_priced(offer)
    fastest = priced.marked(Mark.FASTEST)
    assert fastest.allocation.count > priced.chosen.allocation.count == 1
    taken = offer_accept(user=job.owner, offer=offer, line=priced.lines.index(fastest))
    assert all(way.count >= fastest.allocation.count for way in options_of(taken))
    job_submit(user=job.owner, job=taken)
    tick()
    assert Allocation.objects.filter(job=job).count() >= fastest.allocation.count


def test_the_recommended_line_may_become_any_other_number_of_its_devices(job, node_make, offered):
    node_make("node-1", cpus=4)
    offer = offered(job, deadline_at=timezone.now() + timedelta(days=300), kind="cpu")
    assert {way.count for way in options_of(offer_accept(user=job.owner, offer=offer))} == {1, 2, 3, 4}


@pytest.mark.parametrize(("asked", "modes"), [("async", {"async"}), ("sync", {"single", "sync"})])
def test_the_scheduler_may_change_the_number_of_devices_and_never_the_mode(job, node_make, offered, asked, modes):
    node_make("node-1", cpus=4)
    offer = offered(job, kind="cpu", mode="async")
    priced = offer_priced(offer)
    fitting = [line for line in priced.lines if (line.allocation.count, line.allocation.mode) == (2, asked)]
    taken = offer_accept(user=job.owner, offer=offer, line=priced.lines.index(fitting[0]))
    options = options_of(taken)
    assert {option.mode for option in options} <= modes
    assert asked == "sync" or len({option.count for option in options}) > 1


def test_the_chosen_way_keeps_its_own_range_however_wide_that_of_another_is(job, node_make, offered):
    node_make("node-1", cpus=2)
    offer = offered(job)
    one, two = (next(way for way in lines_of(offer) if way.allocation.count == count) for count in (1, 2))
    later = timezone.now() + timedelta(seconds=1.05 * 3600 + 120)
    Job.objects.filter(pk=job.pk).update(deadline_at=later)
    job.refresh_from_db()
    estimate_keep(job, taking(one, 3600.0, 1.05), [taking(two, 3500.0, 1.4)])
    submitted = job_submit(user=job.owner, job=job)
    assert submitted.promised_at == later
    assert [option.slowdown for option in options_of(submitted)] == pytest.approx([1.05, 1.4])


def lines_of(offer):
    return [line.estimate for line in offer_priced(offer).lines]


def taking(estimate, run_s, slowdown):
    """The same way with another run time."""
    return replace(estimate, run_s=Interval(low=run_s / slowdown, mid=run_s, high=run_s * slowdown))


def test_a_line_that_does_not_fit_cannot_be_taken(job, node_make, offered):
    node_make("node-1", cpus=2, memory_bytes=1 << 20)
    offer = offered(job)
    assert offer_priced(offer).lines[0].hindrance == "memory"
    with pytest.raises(Conflict) as refused:
        offer_accept(user=offer.owner, offer=offer, line=0)
    assert refused.value.code == "line_memory"
    with pytest.raises(Invalid):
        offer_accept(user=offer.owner, offer=offer, line=99)

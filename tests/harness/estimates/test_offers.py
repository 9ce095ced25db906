from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import TestCase
from django.utils import timezone

from codegen.catalog import FAMILIES
from harness.calibration.models import DeviceModelRow
from harness.errors import Conflict, Forbidden, Invalid, NotFound, TooMany
from harness.estimates.models import Inspection, JobEstimate, OfferRow
from harness.estimates.offers import job_key, workload_check
from harness.estimates.selectors import offer_get, offer_priced
from harness.estimates.services import (
    Asked,
    inspection_answer,
    job_estimate,
    jobs_estimate,
    offer_accept,
    offer_make_spec,
    offer_make_workload,
    offer_refresh,
)
from harness.jobs.models import Job
from harness.jobs.options import options_of
from harness.jobs.services import job_clone, program_file_write
from harness.pool.services import pool_setting_update
from harness.rates.submitting import job_submit
from scheduler.estimation.fit import fit_device_model
from scheduler.offers.values import Mark
from tests.harness.calibration.lending import folder, points_of
from tests.harness.estimates.factories import answer, workload_make

__all__ = ["folder"]


def named(tasks_sent, name):
    return [args for task, args, _ in tasks_sent if task == name]


@pytest.mark.django_db(transaction=True)
def test_a_node_is_asked_once_for_the_same_program_and_data(job, node_make, ask, tasks_sent):
    node_make("node-1")
    first, second = ask(job), ask(job)
    assert first.state == second.state == "waiting"
    assert first.inspection == second.inspection
    (request,) = (args[0] for args in named(tasks_sent, "node.inspect"))
    assert request["request_id"] == first.inspection_id
    inspection_answer(answer(first.inspection))
    for offer in (first, second):
        offer.refresh_from_db()
        assert offer.state == "ready"
    assert ask(job).state == "ready"
    assert len(named(tasks_sent, "node.inspect")) == 1


@pytest.mark.django_db(transaction=True)
def test_one_person_has_a_limited_number_of_programs_read_at_once(job_make, people, node_make, ask, monkeypatch):
    node_make("node-1")
    monkeypatch.setattr("harness.estimates.offers.WAITING_MAX", 2)
    jobs = [job_make(training={"epochs": epochs}) for epochs in (3, 4, 5)]
    first = ask(jobs[0])
    ask(jobs[0])  # the same program is read once
    ask(jobs[1])
    with pytest.raises(TooMany, match="2 of your programs"):
        ask(jobs[2])
    inspection_answer(answer(first.inspection))
    assert ask(jobs[2]).state == "waiting"


def test_devices_and_deadline_do_not_change_what_is_read(job_make, node_make, ask):
    node_make("node-1", cpus=2)
    keys = {
        job_key(job_make(**spec))
        for spec in (
            {},
            {"resources": {"count": 2}, "mode": "sync"},
            {"budget": {"deadline": "2090-01-01T00:00:00Z"}},
            {"name": "other"},
        )
    }
    assert len(keys) == 1
    assert job_key(job_make(training={"batch_size": 8})) not in keys


def test_an_offer_prices_every_kind_and_count_of_the_pool(job, node_make, offered):
    node_make("node-1", cpus=2, gpus=1)
    priced = offer_priced(offered(job))
    ways = {(line.allocation.kind, line.allocation.count, line.allocation.mode) for line in priced.lines}
    assert ways == {("cpu", 1, "single"), ("cpu", 2, "single"), ("cpu", 2, "sync"), ("cuda", 1, "single")}
    assert priced.chosen is not None
    assert all(line.estimate.time_basis == "assumed" for line in priced.lines)


def test_an_uncalibrated_pool_is_said_to_be_assumed(job, node_make, offered):
    node_make("node-1")
    _, note = offered(job).notes
    assert note.startswith("Not calibrated here: core. The figures are assumed")


def test_the_model_that_is_priced_is_named_and_so_is_what_the_spec_leaves_open(job_make, node_make, offered, people):
    node_make("node-1")
    job = job_make(model={"family": "auto"})
    word = FAMILIES[job.resolved["spec"]["model"]["family"]].word
    told = f"The model is {word}, size {job.resolved['spec']['model']['size']}"
    assert offered(job).notes[0].startswith(f"{told}: chosen for you (model.family and model.size are auto)")
    pinned = offer_accept(user=job.owner, offer=offered(job))
    assert offered(pinned).notes[0] == f"{told}."
    bare = offer_make_spec(user=people.owner, dataset=job.dataset, spec={}, asked=Asked())
    inspection_answer(answer(bare.inspection))
    bare.refresh_from_db()
    assert bare.notes[0].startswith("The model is ") and ": chosen for you (" in bare.notes[0]


def test_a_core_that_a_shipped_calibration_stands_in_for_is_said_to_rest_on_it(job, node_make, offered, folder):
    node_make("node-1", cpus=2, gpus=1)
    priced = offered(job)
    _, lent, sheets, scratch = priced.notes
    assert lent.startswith("Not calibrated here: core. The figures come from the calibration of Lending core that")
    assert "assumed from data sheets" in sheets and "of core" not in sheets
    assert scratch.startswith("Memory of a rank on gpu: 381 MiB of it are assumed to be scratch space")
    bases = {(line.allocation.kind, line.allocation.count): line.estimate for line in offer_priced(priced).lines}
    assert bases["cpu", 1].time_basis == "modelled" and "ships with the harness" in bases["cpu", 1].note
    assert bases["cuda", 1].time_basis == "assumed"


def test_a_calibrated_core_is_not_called_uncalibrated_where_its_network_is_assumed(job, node_make, offered):
    fitted = fit_device_model(points_of("core", 12)).to_dict()
    DeviceModelRow.objects.create(
        kind="cpu", model_name="core", fitted=fitted, model=fitted, n_points=12, fitted_at=timezone.now()
    )
    node_make("node-1", cpus=2)
    priced = offered(job)
    assert "assumed" in {str(line.estimate.time_basis) for line in offer_priced(priced).lines}
    assert not [note for note in priced.notes if "No calibration" in note]


def test_watts_that_an_admin_entered_are_those_of_offers(job, people, node_make, offered, tasks_sent):
    node_make("node-1", cpus=2, gpus=1)
    table = {"core": {"idle_w": 1.0, "busy_w": 20.0}, "cuda": {"idle_w": 5.0, "busy_w": 50.0}}
    with TestCase.captureOnCommitCallbacks(execute=True):
        pool_setting_update(user=people.admin, power_table=table)
    assert named(tasks_sent, "control.estimates_renew")
    for line in offer_priced(offered(job)).lines:
        assert line.estimate.power_w == (50.0 if line.allocation.kind == "cuda" else 20.0 * line.allocation.count)
        assert line.estimate.energy_basis == "assumed"
        assert "power from the pool's power table" in line.estimate.note


def test_a_deadline_nobody_can_keep_names_the_earliest_that_can(job, node_make, offered):
    node_make("node-1")
    offer = offered(job, deadline_at=timezone.now() + timedelta(seconds=1))
    priced = offer_priced(offer)
    assert priced.chosen is None
    assert priced.earliest_finish_s > timezone.now().timestamp()
    assert priced.changes
    with pytest.raises(Conflict) as refused:
        offer_accept(user=offer.owner, offer=offer)
    assert refused.value.code == "nothing_offered"


def test_a_program_that_was_edited_since_is_priced_anew(job, node_make, offered):
    node_make("node-1")
    offer = offered(job)
    program_file_write(user=job.owner, job=job, name="extra.py", text="x = 1\n")
    with pytest.raises(Conflict) as refused:
        offer_accept(user=offer.owner, offer=offer)
    assert refused.value.code == "offer_stale"
    assert OfferRow.objects.get(pk=refused.value.details["offer"]).state == "waiting"


@pytest.mark.parametrize(
    ("state", "advice"),
    [
        ("placed", "Pause it"),
        ("running", "Pause it"),
        ("pausing", "Ask once"),
        ("returning", "Clone"),
        ("failed", "Clone it"),
    ],
)
def test_a_job_whose_devices_are_chosen_is_told_how_it_comes_to_others(job, node_make, ask, state, advice):
    node_make("node-1")
    Job.objects.filter(pk=job.pk).update(state=state)
    job.refresh_from_db()
    with pytest.raises(Conflict, match="there is nothing to offer") as refused:
        ask(job=job)
    assert refused.value.hint.startswith(advice)


def test_a_program_that_cannot_be_read_fails_the_offer_with_its_reason(job, node_make, ask):
    node_make("node-1")
    offer = ask(job)
    problem = {"code": "cannot_trace", "message": "The loop depends on values.", "hint": "Measure it."}
    inspection_answer({"request_id": offer.inspection_id, "ok": False, "workload": None, "problem": problem})
    offer.refresh_from_db()
    assert offer.state == "failed"
    assert offer.inspection.problem["message"] == "The loop depends on values."
    assert ask(job).state == "failed"
    assert ask(job, again=True).state == "waiting"


@pytest.mark.parametrize(
    "workload",
    [None, {}, {"version": 1}, {"version": 1, "operators": "x"}, {"version": float("nan")}, ["no"], "text"],
)
def test_an_answer_that_is_no_workload_is_a_problem_and_no_crash(job, node_make, ask, workload):
    node_make("node-1")
    offer = ask(job)
    inspection_answer({"request_id": offer.inspection_id, "ok": True, "workload": workload})
    offer.refresh_from_db()
    assert offer.state == "failed"
    assert offer.inspection.problem["code"] == "bad_answer"


def test_answers_for_nobody_and_answers_that_come_twice_do_nothing(job, node_make, ask):
    node_make("node-1")
    offer = ask(job)
    inspection_answer({"request_id": "nobody", "ok": True})
    inspection_answer(answer(offer.inspection))
    inspection_answer({"request_id": offer.inspection_id, "ok": False, "problem": {"message": "late"}})
    assert Inspection.objects.get(pk=offer.inspection_id).state == "done"


def test_a_node_that_never_answers_fails_the_offer_and_is_asked_again(job, node_make, ask, tasks_sent):
    node_make("node-1")
    offer = ask(job)
    Inspection.objects.update(sent_at=timezone.now() - timedelta(minutes=10))
    offer = offer_refresh(offer_get(user=offer.owner, offer_id=offer.pk))
    assert (offer.state, offer.inspection.problem["code"]) == ("failed", "no_answer")
    assert ask(job).state == "waiting"


def test_only_members_ask_and_take(job, people, node_make, offered):
    from harness.estimates.services import offer_make

    node_make("node-1")
    offer = offered(job)
    for user, error in ((people.viewer, Forbidden), (people.outsider, NotFound)):
        with pytest.raises(error):
            offer_make(user=user, job=job, asked=Asked())
        with pytest.raises(error):
            offer_accept(user=user, offer=offer)
    with pytest.raises(NotFound):
        offer_get(user=people.outsider, offer_id=offer.pk)


def test_a_spec_without_a_job_is_priced_by_the_same_reading(dataset, people, node_make):
    node_make("node-1")
    offer = offer_make_spec(user=people.owner, dataset=dataset, spec={}, asked=Asked.of(count=1))
    inspection_answer(answer(offer.inspection))
    offer.refresh_from_db()
    assert offer_priced(offer).chosen.allocation.count == 1
    with pytest.raises(Invalid, match="does not belong to a job"):
        offer_accept(user=people.owner, offer=offer)


def test_a_workload_from_outside_is_priced_at_once_and_seen_by_its_owner_only(people, node_make):
    node_make("node-1")
    offer = offer_make_workload(user=people.owner, workload=workload_make().to_dict(), asked=Asked.of(kind="cpu"))
    assert offer.state == "ready"
    assert offer_get(user=people.owner, offer_id=offer.pk) == offer
    with pytest.raises(NotFound):
        offer_get(user=people.mate, offer_id=offer.pk)


def test_a_model_of_device_without_a_kind_counts_more_than_the_kind_of_the_spec(node_make):
    node_make("node-1", cpus=1, gpus=1)
    spec = {"resources": {"device": "cpu"}}
    assert Asked.wished(spec, model_name="gpu").wish.kind == "cuda"
    assert Asked.wished(spec, model_name="nobody has it").wish.kind is None
    assert Asked.wished(spec, model_name="gpu", kind="cpu").wish.kind == "cpu", "both were given"
    assert Asked.wished(spec, model_name=None).wish.kind == "cpu"


def test_of_a_spec_and_what_is_given_beside_it_the_latter_counts():
    spec = {"budget": {"deadline": "2090-01-31T18:00:00"}, "resources": {"device": "cpu", "count": 2}, "mode": "sync"}
    fixed = Asked.wished(spec)
    assert (fixed.wish.kind, fixed.wish.count, str(fixed.deadline_at)) == ("cpu", 2, "2090-01-31 18:00:00+00:00")
    assert Asked.wished(spec, count=None, deadline_at=None) == Asked.of(kind="cpu", names_deadline=True)
    assert Asked.wished({}) == Asked()
    assert fixed.of_spec(spec).wish.mode == "sync"
    assert Asked.wished(spec, count=1).of_spec(spec).wish.mode is None, "one device has one mode only"


@pytest.mark.parametrize(
    "change",
    [{"version": 2}, {"operators": []}, {"train_rows": 0}, {"epochs": "many"}, {"activation_bytes": -1.0}, {"more": 1}],
)
def test_a_workload_that_is_none_is_refused(change):
    with pytest.raises(Invalid, match="not a workload") as refused:
        workload_check({**workload_make().to_dict(), **change})
    assert refused.value.message.count("not a workload") == 1 and "trace" in refused.value.hint


def test_a_workload_is_taken_as_the_trace_prints_it_and_so_is_why_there_is_none():
    body = workload_make().to_dict()
    assert workload_check({"ok": True, "workload": body, "problem": None}) == workload_check(body)
    problem = {"message": "model.py, line 8: it depends on values", "hint": "Measure it."}
    with pytest.raises(Invalid, match=r"could not be traced: model\.py, line 8") as refused:
        workload_check({"ok": False, "workload": None, "problem": problem})
    assert refused.value.hint == "Measure it."


@pytest.mark.django_db(transaction=True)
def test_a_job_submitted_without_an_offer_is_estimated_on_the_devices_of_its_spec(job, node_make, tasks_sent):
    node_make("node-1", cpus=2)
    job = job_submit(user=job.owner, job=job)
    assert named(tasks_sent, "control.estimate_job") == [[job.pk]]
    assert job_estimate(job.pk) is None
    inspection_answer(answer(Inspection.objects.get()))
    job.refresh_from_db()
    kept = JobEstimate.objects.get(job=job)
    assert kept.estimate["allocation"]["count"] == job.resolved["spec"]["resources"]["count"]
    assert options_of(job)[0].rate_per_s > 0
    clone = job_submit(user=job.owner, job=job_clone(user=job.owner, job=job))
    assert job_estimate(clone.pk) is not None


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("state", ["placed", "running"])
def test_a_job_that_began_before_its_program_was_read_is_estimated_too(job, node_make, state):
    node_make("node-1", cpus=2)
    job = job_submit(user=job.owner, job=job)
    assert job_estimate(job.pk) is None
    type(job).objects.filter(pk=job.pk).update(state=state)
    inspection_answer(answer(Inspection.objects.get()))
    assert JobEstimate.objects.filter(job=job).count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_job_that_came_before_any_node_is_estimated_once_one_is_up(job, node_make):
    job = job_submit(user=job.owner, job=job)
    assert job_estimate(job.pk) is None
    assert not Inspection.objects.exists()
    node_make("node-1", cpus=2)
    assert jobs_estimate() == 0
    inspection_answer(answer(Inspection.objects.get()))
    assert JobEstimate.objects.filter(job=job).count() == 1
    assert jobs_estimate() == 0


def test_marks_stand_on_the_lines(job, node_make, offered):
    node_make("node-1", cpus=2)
    priced = offer_priced(offered(job))
    assert {mark for line in priced.lines for mark in line.marks} == set(Mark)


def test_an_offer_by_a_time_that_nobody_means_is_refused_by_its_field():
    with pytest.raises(Invalid, match="more than ten years away") as refused:
        Asked.of(deadline_at=datetime(9999, 1, 1, tzinfo=UTC)).row()
    assert refused.value.field == "deadline"

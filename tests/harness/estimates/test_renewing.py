"""What is known better now counts for jobs that have not started: a probe, the end of a calibration."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from harness.calibration.models import CalibrationPointRow, CalibrationRun, RunState
from harness.errors import Conflict, Invalid
from harness.estimates import probes, renewing
from harness.estimates.models import Inspection, JobEstimate, OfferRow
from harness.estimates.selectors import offer_priced
from harness.estimates.services import (
    estimates_renew,
    inspection_answer,
    job_estimate,
    measure_answer,
    offer_accept,
    offer_probe,
)
from harness.jobs.admission import promise_ask_again
from harness.jobs.drafts import program_file_write
from harness.jobs.models import Job, JobEvent
from harness.jobs.options import options_of
from harness.jobs.promises import PromiseState, promise_told
from harness.measuring.fitting import model_fit
from harness.rates.submitting import job_submit
from tests.factory_reservations import reservation_create
from tests.harness.estimates.factories import answer
from tests.harness.jobs.helpers import queue
from tests.harness.measuring.test_fitting import measure
from tests.scheduler.made_workloads import KIND, NAME

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def told(probe, *, step_s=0.01) -> None:
    """A node's answer: so long a step."""
    measure_answer({"request_id": f"{probes.PREFIX}{probe.pk}", "ok": True, "step_s": [step_s] * 3})
    probe.refresh_from_db()
    if probe.first_look:
        again = f"{probes.PREFIX}{probe.pk}{probes.AGAIN}"
        measure_answer({"request_id": again, "ok": True, "step_s": [step_s] * 3})


def basis(job: Job) -> str:
    return str(JobEstimate.objects.get(job=job).estimate["time_basis"])


def fresh(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)


def notes(job: Job) -> list[str]:
    """What was said of its finish, as events."""
    return list(JobEvent.objects.filter(job=job, message__contains="promised").values_list("message", flat=True))


def calibrated(model_name: str) -> None:
    """Such cores are, as a sweep has measured them."""
    measure(30)
    CalibrationPointRow.objects.update(model_name=model_name)
    model_fit("cpu", model_name)


def test_a_probe_refines_the_estimate_of_a_job_that_waits(job_make, node_make, people, offered):
    node_make("node-1", cpus=2)
    fixed = job_make(resources={"device": "cpu", "count": 1})
    queue(fixed)
    offer = offered(job_make(name="same program", resources={"device": "cpu", "count": 1}))
    job_estimate(fixed.pk)
    before = fresh(fixed)
    assert basis(fixed) == "assumed" and before.slowdown > 2
    told(offer_probe(user=people.owner, offer=offer))
    after = fresh(fixed)
    assert basis(fixed) == "measured" and after.slowdown < before.slowdown
    assert options_of(after)[0].rate_per_s != options_of(before)[0].rate_per_s


def test_a_probe_refines_the_ways_that_a_person_took_and_changes_none(job, node_make, people, offered):
    node_make("node-1", cpus=2)
    offer = offered(job)
    taken = queue(offer_accept(user=people.owner, offer=offer))
    before = [(option.key, option.count, option.mode) for option in options_of(taken)]
    assert len(before) > 1 and basis(taken) == "assumed"
    told(offer_probe(user=people.owner, offer=offer))
    after = fresh(taken)
    assert [(option.key, option.count, option.mode) for option in options_of(after)] == before
    kept = JobEstimate.objects.get(job=taken)
    assert basis(taken) == "measured" and kept.offer_id == offer.pk and after.slowdown < taken.slowdown


def test_a_finish_that_was_refused_for_a_wide_range_is_promised_once_a_probe_narrows_it(
    job, node_make, people, offered
):
    node_make("node-1", cpus=2)
    line = offer_priced(offered(job, count=1)).lines[0]
    within = timedelta(seconds=0.8 * line.estimate.run_s.high)
    offer = offered(job, deadline_at=timezone.now() + within, count=1)
    taken = offer_accept(user=people.owner, offer=offer, promised=False)
    with pytest.raises(Invalid):
        job_submit(user=people.owner, job=taken)
    waits = job_submit(user=people.owner, job=taken, promised=False)
    assert waits.promised_at is None
    told(offer_probe(user=people.owner, offer=offer), step_s=0.0001)
    promised = fresh(waits)
    assert promised.promised_at == promised.deadline_at
    assert JobEvent.objects.filter(job=waits, message__startswith="Its estimate was renewed.").count() == 1


def test_a_finish_that_is_refused_again_is_told_by_the_new_estimate_and_makes_no_event(job, node_make, people, offered):
    node_make("node-1", cpus=2)
    line = offer_priced(offered(job, count=1)).lines[0]
    within = timedelta(seconds=0.8 * line.estimate.run_s.high)
    offer = offered(job, deadline_at=timezone.now() + within, count=1)
    taken = offer_accept(user=people.owner, offer=offer, promised=False)
    waits = job_submit(user=people.owner, job=taken, promised=False)
    Job.objects.filter(pk=waits.pk).update(promise=promise_told(PromiseState.NOT_PROMISED, "As of then."))
    before = notes(waits)
    told(offer_probe(user=people.owner, offer=offer), step_s=1000.0)
    after = fresh(waits)
    assert after.promised_at is None and after.promise["state"] == "not_promised"
    assert "The earliest finish that can be promised is" in after.promise["text"]
    assert notes(waits) == before


def test_the_first_answer_to_a_finish_is_left_to_be_told_with_an_event(job, node_make, people, offered):
    node_make("node-1", cpus=2)
    run_s = offer_priced(offered(job, count=1)).lines[0].estimate.run_s
    offer = offered(job, deadline_at=timezone.now() + timedelta(seconds=0.8 * run_s.high), count=1)
    waits = job_submit(
        user=people.owner, job=offer_accept(user=people.owner, offer=offer, promised=False), promised=False
    )
    awaits = promise_told(PromiseState.NO_ESTIMATE)
    Job.objects.filter(pk=waits.pk).update(promise=awaits)
    assert not promise_ask_again(fresh(waits))
    assert fresh(waits).promise == awaits


def test_a_promise_stays_where_the_job_turns_out_to_take_longer(job, node_make, people, offered):
    node_make("node-1", cpus=2)
    within = timedelta(seconds=1.2 * offer_priced(offered(job, count=1)).lines[0].estimate.run_s.high)
    offer = offered(job, deadline_at=timezone.now() + within, count=1)
    taken = job_submit(user=people.owner, job=offer_accept(user=people.owner, offer=offer))
    assert taken.promised_at is not None
    told(offer_probe(user=people.owner, offer=offer), step_s=1000.0)
    after = fresh(taken)
    assert basis(taken) == "measured" and options_of(after)[0].rate_per_s < options_of(taken)[0].rate_per_s
    assert (after.promised_at, after.promise["state"]) == (taken.promised_at, "promised")


def test_a_draft_that_was_changed_since_is_left_alone(job, node_make, people, offered):
    from harness.jobs.services import job_spec_update

    node_make("node-1", cpus=2)
    offer = offered(job)
    taken = offer_accept(user=people.owner, offer=offer)
    job_spec_update(user=people.owner, job=taken, spec={**taken.spec, "resources": {"device": "cpu", "count": 2}})
    assert estimates_renew() == 0 and fresh(taken).options == []


def test_devices_that_are_reserved_meanwhile_leave_the_figures_as_they_are(job, node_make, people, offered):
    node_make("node-1", cpus=2)
    taken = queue(offer_accept(user=people.owner, offer=offered(job)))
    reservation_create(user=people.admin, node="node-1", ends_at=timezone.now() + HOUR, purpose="upkeep")
    assert estimates_renew() == 1 and fresh(taken).options == taken.options


def meanwhile(monkeypatch: pytest.MonkeyPatch, change: Callable[[], Any]) -> None:
    """Have something happen once, while a job is priced."""
    compute, changes = renewing._priced, [change]

    def priced(*args: Any, **options: Any) -> Any:
        found = compute(*args, **options)
        if changes:
            changes.pop()()
        return found

    monkeypatch.setattr(renewing, "_priced", priced)


def test_an_offer_that_is_accepted_while_its_job_is_priced_is_not_overwritten(
    job, node_make, people, offered, monkeypatch
):
    node_make("node-1", cpus=2)
    taken = queue(offer_accept(user=people.owner, offer=offered(job)))
    other = offered(job, count=2)
    meanwhile(monkeypatch, lambda: offer_accept(user=people.owner, offer=other, elastic=False))
    assert estimates_renew() == 1
    assert JobEstimate.objects.get(job=taken).offer_id == other.pk
    assert [option.count for option in options_of(fresh(taken))] == [2]


def test_a_job_that_starts_while_it_is_priced_keeps_its_options(job, node_make, people, offered, monkeypatch):
    node_make("node-1", cpus=2)
    taken = queue(offer_accept(user=people.owner, offer=offered(job)))
    Job.objects.filter(pk=taken.pk).update(slowdown=7.0)
    meanwhile(monkeypatch, lambda: Job.objects.filter(pk=taken.pk).update(state="placed"))
    assert estimates_renew() == 0
    assert (fresh(taken).options, fresh(taken).slowdown) == (taken.options, 7.0)


def test_a_draft_whose_program_is_edited_while_it_is_priced_has_no_estimate(
    job, node_make, people, offered, monkeypatch
):
    node_make("node-1", cpus=2)
    taken = offer_accept(user=people.owner, offer=offered(job))
    text = settings.STORE.job(job.pk).program.joinpath("train.py").read_text() + "\n# mine\n"
    edit = {"user": people.owner, "job": taken, "name": "train.py", "text": text}
    meanwhile(monkeypatch, lambda: program_file_write(**edit))
    assert estimates_renew() == 0 and fresh(taken).options == []


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.STOPPED])
def test_the_last_fit_of_a_calibration_has_jobs_estimated_anew(
    tasks_sent: list[Any], django_capture_on_commit_callbacks: Any, state: RunState
) -> None:
    run = CalibrationRun.objects.create(
        node_name="node-1", kind=KIND, model_name=NAME, budget_s=60.0, measured=7, state=state
    )
    measure(7)
    with django_capture_on_commit_callbacks(execute=True):
        model_fit(KIND, NAME, run.pk)
    sent = [name for name, _, _ in tasks_sent]
    assert ("control.estimates_renew" in sent) is (state == RunState.STOPPED), "of a sweep that goes on at its end"


def test_a_calibration_narrows_the_range_of_a_job_that_waits(job_make, node_make, people):
    node_make("node-1", cpus=2)
    waits = queue(job_make(resources={"device": "cpu", "count": 1}))
    job_estimate(waits.pk)
    inspection_answer(answer(Inspection.objects.get()))
    wide = fresh(waits).slowdown
    assert basis(waits) == "assumed"
    calibrated("core")
    assert estimates_renew() == 1
    assert basis(waits) == "modelled" and fresh(waits).slowdown < wide


def test_an_offer_of_before_a_calibration_is_to_be_looked_at_again(job, node_make, people, offered):
    node_make("node-1", cpus=2)
    offer = offered(job)
    calibrated("core")
    with pytest.raises(Conflict, match=r"a calibration has told since") as refused:
        offer_accept(user=people.owner, offer=offer)
    assert refused.value.code == "offer_stale"
    taken = offer_accept(user=people.owner, offer=OfferRow.objects.get(pk=refused.value.details["offer"]))
    assert basis(taken) == "modelled"


def test_what_a_calibration_says_of_other_devices_does_not_matter(job, node_make, people, offered):
    node_make("node-1", cpus=2)
    offer = offered(job)
    calibrated("another")
    assert basis(offer_accept(user=people.owner, offer=offer)) == "assumed"


def test_ways_that_were_kept_with_their_rows_shared_out_otherwise_are_priced_anew_all_the_same(
    job, node_make, people, offered
):
    node_make("node-1", cpus=2)
    taken = queue(offer_accept(user=people.owner, offer=offered(job, count=2, mode="sync")))
    kept = JobEstimate.objects.get(job=taken)
    shares = kept.estimate["allocation"]["batch_split"]
    assert len(shares) == 2
    kept.estimate["allocation"]["batch_split"] = [shares[0] + 1, shares[1] - 1]
    kept.save()
    assert estimates_renew() == 1
    assert JobEstimate.objects.get(job=taken).estimate["allocation"]["batch_split"] == shares

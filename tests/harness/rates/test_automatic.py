"""Jobs whose steps have other rows than usual, and whose spec leaves rate and rule open."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from harness.estimates import rate_wishes
from harness.estimates.models import Inspection
from harness.estimates.selectors import offer_priced
from harness.estimates.services import Asked, inspection_answer, offer_accept, offer_make
from harness.jobs.models import Job
from harness.jobs.options import options_of
from harness.jobs.services import job_clone, job_spec_update, program_file_write
from harness.rates import before
from harness.rates.models import RateTest
from harness.rates.retention import rates_advance
from harness.rates.selectors import job_rate
from harness.rates.services import rate_use
from harness.rates.submitting import job_submit
from tests.factory_rates import rate_test_make, record_make
from tests.harness.estimates.factories import answer
from tests.harness.rates.answers import answered
from tests.harness.rates.drafts import LONG, submit, told


def test_a_long_job_with_another_batch_is_tested_once_a_node_has_read_its_program(
    changed: Job, commit: Any, tasks_sent: list[Any], read: Callable[..., None]
) -> None:
    before = changed.resolved["spec"]["training"]["learning_rate"]
    job = submit(changed, commit, tasks_sent)
    assert job.state == "draft" and "may find the learning rate" in told(job)
    assert not [sent for sent in tasks_sent if sent[0] == "node.rate_range"]
    read()
    commit(rates_advance)
    ((_, (request,), _),) = [sent for sent in tasks_sent if sent[0] == "node.rate_range"]
    assert request["batch_size"] == 8
    test = answered(job.rate_tests.get())
    job.refresh_from_db()
    assert job.state == "queued"
    assert test.trials["state"] == "none", "trials are longer than the share that a test may take"
    assert job.spec["training"]["learning_rate"] == test.used_rate != before
    rate, why = job_rate(job)
    assert rate == test.used_rate and "a range test with steps of 8 rows" in why and "are usable" in why


def test_a_short_run_is_told_with_the_steps_that_it_makes(job_make: Any, commit: Any, tasks_sent: list[Any]) -> None:
    job = submit(job_make(training={"batch_size": 8, "epochs": 4}), commit, tasks_sent)
    assert job.state == "queued"
    # 84 of 120 rows are trained on, in 11 steps; those that are held out make none
    assert "a run of 44 steps is too short for a range test" in told(job)


def test_a_run_is_priced_before_the_scheduler_has_to_wait(
    changed: Job, commit: Any, tasks_sent: list[Any], read: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    within: list[bool] = []
    verdict_of = before.rate_verdict

    def noted(job: Job) -> Any:
        within.append(len(connection.savepoint_ids) > outside)
        return verdict_of(job)

    outside = len(connection.savepoint_ids)
    monkeypatch.setattr(before, "rate_verdict", noted)
    job_submit(user=changed.owner, job=changed)
    assert within == [False]


def test_a_job_that_is_too_short_for_a_test_keeps_the_rule_and_says_why(
    job_make: Any, node_make: Any, commit: Any, tasks_sent: list[Any]
) -> None:
    node_make("node-1")
    job = job_make(training={"batch_size": 8, "epochs": 3})
    before = job.resolved["spec"]["training"]["learning_rate"]
    job = submit(job, commit, tasks_sent)
    assert (job.state, job.rate_tests.count()) == ("queued", 0)
    assert job.resolved["spec"]["training"]["learning_rate"] == before
    assert "by the rule sqrt: a step has 8 rows, not the usual 32; a run of" in told(job)
    assert job_rate(job)[1].startswith("by the rule sqrt")


def test_a_job_whose_run_is_short_beside_the_test_keeps_the_rule_and_says_what_it_would_take(
    changed: Job, commit: Any, tasks_sent: list[Any], read: Callable[..., None]
) -> None:
    submit(changed, commit, tasks_sent)
    read(epochs=1)
    commit(rates_advance)
    changed.refresh_from_db()
    assert (changed.state, changed.spec["training"]["learning_rate"]) == ("queued", "auto")
    assert "it may take 10 %" in told(changed) and changed.rate_tests.get().problem["code"] == "not_worth"


def test_a_job_that_nobody_can_estimate_is_not_kept_waiting(changed: Job, commit: Any, tasks_sent: list[Any]) -> None:
    submit(changed, commit, tasks_sent)
    problem = {"code": "cannot_trace", "message": "It depends on values.", "hint": ""}
    inspection_answer(answer(Inspection.objects.get(), ok=False, workload=None, problem=problem))
    commit(rates_advance)
    changed.refresh_from_db()
    assert changed.state == "queued" and "there is no estimate of how long its run takes" in told(changed)


def test_a_wished_finish_that_leaves_no_time_for_a_test_is_kept_without_one(
    changed: Job, commit: Any, tasks_sent: list[Any], read: Callable[..., None]
) -> None:
    submit(changed, commit, tasks_sent)
    Job.objects.update(deadline_at=timezone.now() + timedelta(seconds=1))
    read()
    commit(rates_advance)
    changed.refresh_from_db()
    assert "leaves no time for a range test" in told(changed)
    assert not [sent for sent in tasks_sent if sent[0] == "node.rate_range"]


def test_a_test_that_cannot_begin_soon_is_left_out(changed: Job, commit: Any, tasks_sent: list[Any]) -> None:
    submit(changed, commit, tasks_sent)
    late = timedelta(seconds=rate_wishes.UNASKED_WAIT_LIMIT_S + 1)
    RateTest.objects.update(created_at=timezone.now() - late)
    commit(rates_advance)
    changed.refresh_from_db()
    assert changed.state == "queued" and "No device was idle for it in time" in told(changed)


def test_a_test_that_says_nothing_leaves_the_rule_and_is_not_made_again(
    changed: Job, commit: Any, tasks_sent: list[Any], read: Callable[..., None]
) -> None:
    submit(changed, commit, tasks_sent)
    read()
    commit(rates_advance)
    answered(changed.rate_tests.get(), record=record_make(noise=50.0, seed=3).to_dict())
    changed.refresh_from_db()
    assert (changed.state, changed.rate_tests.count()) == ("queued", 1)
    assert changed.spec["training"]["rate_rule"] == "auto" and "the range test found none" in told(changed)


@pytest.mark.parametrize("training", [{"learning_rate": 0.01}, {"rate_rule": "linear"}, {"rate_rule": "none"}])
def test_what_a_person_names_is_taken_without_a_test(
    job_make: Any, node_make: Any, commit: Any, tasks_sent: list[Any], training: dict[str, Any]
) -> None:
    node_make("node-1")
    job = submit(job_make(training=LONG | training), commit, tasks_sent)
    assert (job.state, job.rate_tests.count()) == ("queued", 0)


def test_a_spec_file_that_was_edited_by_hand_stays_as_it_is(changed: Job, commit: Any, tasks_sent: list[Any]) -> None:
    path = settings.STORE.job(changed.pk).program / "spec.yaml"
    text = path.read_text().replace("rate_rule: sqrt", "rate_rule: sqrt  # mine")
    program_file_write(user=changed.owner, job=changed, name="spec.yaml", text=text)
    job = submit(changed, commit, tasks_sent)
    assert job.state == "queued" and path.read_text() == text
    assert "spec.yaml was edited by hand" in told(job) and job_rate(job)[0] is None


def test_a_rate_that_is_fixed_while_the_test_goes_on_stays(
    changed: Job, commit: Any, tasks_sent: list[Any], read: Callable[..., None]
) -> None:
    submit(changed, commit, tasks_sent)
    read()
    commit(rates_advance)
    spec = changed.spec | {"training": {**changed.spec["training"], "learning_rate": 0.0123}}
    job_spec_update(user=changed.owner, job=changed, spec=spec)
    answered(changed.rate_tests.get())
    changed.refresh_from_db()
    assert (changed.state, changed.spec["training"]["learning_rate"]) == ("queued", 0.0123)


def test_a_program_that_is_changed_while_the_test_goes_on_does_not_get_its_rate(
    changed: Job, commit: Any, tasks_sent: list[Any], read: Callable[..., None]
) -> None:
    submit(changed, commit, tasks_sent)
    read()
    commit(rates_advance)
    spec = changed.spec | {"training": {**changed.spec["training"], "batch_size": 16}}
    job_spec_update(user=changed.owner, job=changed, spec=spec)
    first = answered(changed.rate_tests.get())
    changed.refresh_from_db()
    assert (changed.state, changed.spec["training"]["learning_rate"]) == ("draft", "auto")
    assert changed.rate_tests.exclude(pk=first.pk).get().submit, "its own test comes first"


def test_an_offer_counts_the_test_and_its_devices_stay_promised_after_it(
    changed: Job, commit: Any, tasks_sent: list[Any]
) -> None:
    asked = Asked.of(count=2, kind="cpu", mode="sync", deadline_at=timezone.now() + timedelta(days=30))
    offer = offer_make(user=changed.owner, job=changed, asked=asked)
    inspection_answer(answer(offer.inspection))
    offer.refresh_from_db()
    line = offer_priced(offer).chosen
    assert line.start_s == pytest.approx(offer_priced(offer).now_s + line.before_s) and line.before_s > 10
    assert line.energy_j.mid == pytest.approx(line.estimate.energy_j.mid + line.before_j) and line.before_j > 0
    (note,) = [note for note in offer.notes if "a range test finds the learning rate" in note]
    assert f" ({line.estimate.energy_basis}). Starts" in note, "what its energy rests on"
    job = offer_accept(user=changed.owner, offer=offer)
    ways = options_of(job)
    job = submit(job, commit, tasks_sent)
    assert job.state == "draft" and "finds the learning rate first" in told(job)
    answered(job.rate_tests.get())
    job.refresh_from_db()
    assert job.state == "queued" and job.promised_at is not None
    assert options_of(job) == ways and job.slowdown > 1


def test_backup_ranks_make_a_step_smaller_and_its_rate_with_it(job_make: Any, node_make: Any) -> None:
    node_make("node-1", cpus=4)
    spec = {"mode": "async", "resources": {"device": "cpu", "count": 4}}
    whole, fewer = (job_make(**spec, training={"backup": backup}) for backup in (0, 2))
    rates = [job.resolved["spec"]["training"]["learning_rate"] for job in (whole, fewer)]
    assert rates[1] == pytest.approx(rates[0] * 0.5**0.5, rel=1e-2)
    assert fewer.resolved["spec"]["training"]["rate_rule"] == "sqrt"


def test_a_rate_that_was_found_for_another_batch_stays_in_a_clone_and_is_told(
    job_make: Any, node_make: Any, commit: Any, tasks_sent: list[Any]
) -> None:
    node_make("node-1")
    parent = job_make(training={"batch_size": 8, "epochs": 3})
    rate_use(user=parent.owner, job=parent, test=rate_test_make(parent, batch_size=8), rate=0.02)
    same, other = job_clone(user=parent.owner, job=parent), job_clone(user=parent.owner, job=parent)
    spec = {**other.spec, "training": {**other.spec["training"], "batch_size": 64}}
    other = job_spec_update(user=other.owner, job=other, spec=spec)
    for job in (same, other):
        assert submit(job, commit, tasks_sent).spec["training"]["learning_rate"] == 0.02
    assert "found it for steps of 8 rows, and now a step has 64" in told(other)
    assert "range test" not in told(same)
    again = job_clone(user=other.owner, job=other)
    submit(again, commit, tasks_sent)
    assert "found it for steps of 8 rows, and now a step has 64" in told(again), "it keeps the rate as well"


def test_a_rate_that_was_found_in_another_project_is_told_as_well(
    job_make: Any, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any]
) -> None:
    node_make("node-1")
    parent = job_make(training={"batch_size": 8, "epochs": 3})
    rate_use(user=parent.owner, job=parent, test=rate_test_make(parent, batch_size=8), rate=0.02)
    job = job_clone(user=parent.owner, job=parent)
    spec = {**job.spec, "training": {**job.spec["training"], "batch_size": 64}}
    job = job_spec_update(user=job.owner, job=job, spec=spec)
    Job.objects.filter(pk=parent.pk).update(project=people.elsewhere)
    submit(job, commit, tasks_sent)
    assert "found it for steps of 8 rows, and now a step has 64" in told(job)


def test_of_the_tests_of_other_jobs_none_is_read_while_one_is_submitted(
    job_make: Any, node_make: Any, django_assert_num_queries: Any
) -> None:
    node_make("node-1")
    job = job_make(training={"batch_size": 8, "learning_rate": 0.02})
    rate_test_make(job, batch_size=8)  # which found another one, or is not used
    with django_assert_num_queries(1) as asked:
        assert before._stands(job) == ""
    assert '"job_id" IN' in asked.captured_queries[0]["sql"], "there may be very many that found the same rate"
    for _ in range(5):
        job = job_clone(user=job.owner, job=job)
    with django_assert_num_queries(6):
        assert before._stands(job) == ""

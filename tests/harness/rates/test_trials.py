"""Trials after a range test: asked for on the same device, answered in any form, given up, used; and their cost."""

from __future__ import annotations

import math
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from harness.errors import Invalid
from harness.jobs.models import Job
from harness.jobs.services import job_spec_update
from harness.pool.models import Reservation
from harness.rates import sending
from harness.rates.models import RateTest
from harness.rates.retention import rates_advance
from harness.rates.selectors import rate_names, rate_test_is_current, rate_trials
from harness.rates.services import rate_test_start, rate_use
from harness.rates.submitting import job_submit
from harness.rates.tasks import rate_first, rate_range_done
from harness.rates.trials import LIMITS_S, trials_most_s, trials_plan
from tests.factory_rates import report_make, trials_report_make


@pytest.fixture
def trying(job: Job, people: SimpleNamespace, node_make: Any, commit: Any) -> RateTest:
    """A test whose range test is over and whose trials a node works on."""
    node_make("node-1")
    return ranged(rate_test_start(user=people.owner, job=job), commit)


def ranged(test: RateTest, commit: Any, **more: Any) -> RateTest:
    """The range test's answer comes, of a run of five seconds."""
    commit(rate_range_done, report_make(test.pk, **{"run_s": 5.0, **more}))
    test.refresh_from_db()
    return test


def tried(test: RateTest, **more: Any) -> RateTest:
    rate_range_done(trials_report_make(test.pk, **more))
    test.refresh_from_db()
    return test


def held() -> int:
    return Reservation.objects.filter(cancelled_at=None).count()


def test_trials_around_the_centre_are_asked_of_the_same_device_with_their_cost_told_before(
    trying: RateTest, tasks_sent: list[Any]
) -> None:
    assert trying.state == "waiting" and held() == 1
    requests = [sent for sent in tasks_sent if sent[0] == "node.rate_range"]
    (_, (request,), queue) = requests[-1]
    assert queue == f"node.{trying.node_name}"
    assert request["centre"] == trying.found["centre"] and request["scale"] == 1.0
    told = rate_trials(trying)
    assert told is not None and told["state"] == "waiting"
    assert told["expected_s"] == pytest.approx(5.0 * told["most_share"])
    assert request["budget_s"] > told["expected_s"]
    kept = Reservation.objects.get(cancelled_at=None)
    assert kept.ends_at > timezone.now() + timedelta(seconds=request["budget_s"])
    assert not kept.open_ended  # unlike the test's own, which these may follow


def test_their_rate_goes_into_the_spec_where_nobody_names_another(
    trying: RateTest, job: Job, people: SimpleNamespace
) -> None:
    rate_range_done({"request_id": trying.pk, "progress": 0.3})
    trying.refresh_from_db()
    assert (trying.state, trying.progress) == ("waiting", 0.3)
    test = tried(trying)
    assert test.state == "done" and not held()
    names = rate_names(test)
    assert names["best"] == names["trials"] != names["centre"]
    job = rate_use(user=people.owner, job=job, test=test)
    assert job.spec["training"]["learning_rate"] == pytest.approx(names["trials"], rel=0.01)


def test_trials_whose_time_was_over_before_a_whole_training_say_that_their_rate_may_be_too_large(
    trying: RateTest,
) -> None:
    done = [{"round": 1, "rate": rate, "share": 0.125, "loss": loss} for rate, loss in ((4e-3, 0.9), (9e-4, 1.4))]
    test = tried(trying, complete=False, trials={"centre": 4e-3, "scale": 1.0, "done": done})
    assert any("may be too large" in note for note in test.trials["notes"])


def test_whole_trials_say_nothing_of_short_ones(trying: RateTest) -> None:
    assert not any("may be too large" in note for note in tried(trying).trials["notes"])


def test_an_answer_that_comes_twice_counts_once(trying: RateTest, commit: Any, tasks_sent: list[Any]) -> None:
    sent = len(tasks_sent)
    assert ranged(trying, commit).state == "waiting" and len(tasks_sent) == sent
    test = tried(trying)
    again = tried(test, problem={"code": "late", "message": "twice", "hint": ""})
    assert again.trials == test.trials


BAD = (
    {"trials": None}, {"trials": "many"}, {"trials": {}}, {"trials": {"centre": 1, "scale": 1, "done": []}},
    {"trials": {"centre": 1, "scale": 1, "done": [{"round": 1, "rate": -1.0, "share": 0.1, "loss": 1.0}]}},
    {"problem": "bad"}, {"problem": {"code": "time_limit", "message": "too \0 slow", "hint": ""}},
)  # fmt: skip


@pytest.mark.parametrize("report", BAD)
def test_trials_that_say_nothing_leave_the_centre_with_their_reason(trying: RateTest, report: dict[str, Any]) -> None:
    test = tried(trying, **report)
    assert test.state == "done" and not held()
    assert test.trials["state"] == "failed" and test.trials["problem"]["message"]
    names = rate_names(test)
    assert names["best"] == names["centre"] and "trials" not in names


def test_trials_that_nobody_answers_leave_the_centre(trying: RateTest) -> None:
    RateTest.objects.update(sent_at=timezone.now() - timedelta(seconds=sending.ANSWER_SPARE_S))
    rates_advance()
    trying.refresh_from_db()
    assert trying.state == "waiting"
    RateTest.objects.update(sent_at=timezone.now() - timedelta(hours=2))
    rates_advance()
    trying.refresh_from_db()
    assert (trying.state, trying.trials["problem"]["code"]) == ("done", "no_answer")
    assert not held()


@pytest.mark.parametrize(
    ("wish", "run_s", "state"),
    [
        ("auto", 1.0, "waiting"), ("auto", LIMITS_S["auto"], "none"), ("always", LIMITS_S["auto"], "waiting"),
        ("always", LIMITS_S["always"], "none"), ("never", 1.0, "none"), ("auto", None, "none"), ("auto", -1.0, "none"),
    ],
)  # fmt: skip
def test_they_are_made_where_their_cost_is_allowed_and_else_it_is_told_why_not(
    job: Job, people: SimpleNamespace, node_make: Any, commit: Any, wish: str, run_s: float | None, state: str
) -> None:
    node_make("node-1")
    test = ranged(rate_test_start(user=people.owner, job=job, trials=wish), commit, run_s=run_s)
    told = rate_trials(test)
    assert told is not None and told["state"] == state
    assert test.state == ("waiting" if state == "waiting" else "done")
    assert (told["expected_s"] or 0.0) <= LIMITS_S[wish] or (state == "none" and told["why"])


def test_a_longer_run_is_tried_by_shorter_trials(
    job: Job, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any]
) -> None:
    node_make("node-1")
    ranged(rate_test_start(user=people.owner, job=job), commit, run_s=20.0)
    (_, (request,), _) = [sent for sent in tasks_sent if sent[0] == "node.rate_range"][-1]
    assert 0.5 <= request["scale"] < 1.0


def test_a_wish_that_is_none_is_refused(job: Job, people: SimpleNamespace, node_make: Any) -> None:
    node_make("node-1")
    with pytest.raises(Invalid) as refused:
        rate_test_start(user=people.owner, job=job, trials="often")
    assert refused.value.field == "trials"


def test_a_device_that_was_given_back_meanwhile_is_not_taken_again(
    job: Job, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any]
) -> None:
    node_make("node-1")
    test = rate_test_start(user=people.owner, job=job)
    Reservation.objects.update(cancelled_at=timezone.now())
    sent = len(tasks_sent)
    test = ranged(test, commit)
    assert (test.state, test.trials["state"], len(tasks_sent)) == ("done", "none", sent)


def test_trials_do_not_stand_for_a_longer_run(trying: RateTest, job: Job, people: SimpleNamespace) -> None:
    test = tried(trying)
    assert rate_test_is_current(test, job)
    spec = {**job.spec, "training": {**job.spec.get("training", {}), "epochs": 77}}
    job = job_spec_update(user=people.owner, job=job, spec=spec)
    assert not rate_test_is_current(test, job)


@pytest.mark.parametrize("rule", ["range", "trials"])
def test_a_job_is_submitted_with_the_rate_of_its_trials(
    job_make: Any, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any], rule: str
) -> None:
    node_make("node-1")
    batch = {"batch_size": 8} if rule == "range" else {}  # by trials also the usual batch
    job = job_make(training={"rate_rule": rule, **batch})
    commit(job_submit, user=people.mate, job=job)
    ((_, arguments, _),) = [sent for sent in tasks_sent if sent[0] == "control.rate_first"]
    rate_first(*arguments)
    test = ranged(job.rate_tests.get(), commit, run_s=100.0 if rule == "trials" else 5.0)
    job.refresh_from_db()
    assert (test.state, job.state) == ("waiting", "draft")
    test = tried(test)
    job.refresh_from_db()
    assert job.state == "queued"
    assert job.spec["training"]["learning_rate"] == test.used_rate == pytest.approx(test.trials["rate"], rel=0.01)
    assert any("range test and trials" in event.message for event in job.events.all())


@pytest.mark.parametrize("wish", ["auto", "always", "never"])
@pytest.mark.parametrize("run_s", [0.1, 30.0, 900.0, 40_000.0])
def test_no_plan_gives_a_node_more_time_for_trials_than_is_counted_with_before(wish: str, run_s: float) -> None:
    assert trials_plan(wish, run_s, {}).get("limit_s", 0.0) <= trials_most_s(wish)


@pytest.mark.parametrize(("wish", "state"), [("auto", "none"), ("always", "waiting")])
def test_what_trials_are_expected_to_take_if_asked_for_is_what_they_are_given_then(wish: str, state: str) -> None:
    plan = trials_plan(wish, 300.0, {})
    assert (plan["state"], plan["expected_s"]) == (state, pytest.approx(LIMITS_S["always"]))


@pytest.mark.parametrize("run_s", [math.inf, math.nan, -1.0, None, "5"])
def test_a_run_of_no_sensible_length_is_planned_as_unknown(run_s: Any) -> None:
    plan = trials_plan("always", run_s, {})
    assert plan["run_s"] == 0.0 and "did not tell" in plan["why"]
    assert "ask for them" in trials_plan("often", 5.0, {})["why"]

"""Jobs whose rate is found before they are submitted: `training.rate_rule: range`."""

from __future__ import annotations

import re
import sys
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from harness.jobs.models import Job
from harness.jobs.project_trash import project_delete
from harness.jobs.services import job_cancel, job_delete, job_spec_update
from harness.pool.models import Reservation
from harness.rates import sending
from harness.rates.models import RateTest
from harness.rates.retention import rates_advance
from harness.rates.services import rate_test_start
from harness.rates.submitting import job_submit
from harness.rates.tasks import rate_first, rate_range_done
from tests.factory_rates import record_make, report_make
from tests.harness.jobs.helpers import estimated, wish
from tests.harness.rates.answers import answered


@pytest.fixture
def waiting(job_make: Any) -> Job:
    """A draft whose rate is to be found before it is submitted: its batch is not the usual one."""
    return job_make(training={"batch_size": 8, "rate_rule": "range"})


def ask_first(job: Job, user: Any, commit: Any, tasks_sent: list[Any]) -> None:
    """Submit it, and do what control is asked to."""
    commit(job_submit, user=user, job=job)
    ((_, arguments, _),) = [sent for sent in tasks_sent if sent[0] == "control.rate_first"]
    rate_first(*arguments)


def test_a_job_is_tested_first_and_then_submitted_with_the_centre(
    waiting: Job, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any]
) -> None:
    node_make("node-1")
    ask_first(waiting, people.mate, commit, tasks_sent)
    waiting.refresh_from_db()
    assert waiting.state == "draft"
    test = answered(waiting.rate_tests.get())
    waiting.refresh_from_db()
    assert waiting.state == "queued"
    assert waiting.spec["training"]["learning_rate"] == test.used_rate
    assert test.batch_size == 8
    assert any("range test" in event.message for event in waiting.events.all())


def test_a_job_whose_message_was_lost_is_tested_all_the_same(
    waiting: Job, people: SimpleNamespace, node_make: Any, commit: Any
) -> None:
    node_make("node-1")
    commit(job_submit, user=people.mate, job=waiting)  # the broker loses what is sent here
    assert rates_advance() == 1
    answered(waiting.rate_tests.get())
    waiting.refresh_from_db()
    assert waiting.state == "queued"


@pytest.mark.parametrize(("wanted", "after"), [(True, "draft"), (False, "queued")])
def test_whether_a_promise_is_wanted_is_kept_over_the_test(
    job_make: Any, people: SimpleNamespace, node_make: Any, commit: Any, wanted: bool, after: str
) -> None:
    node_make("node-1")
    training = {"batch_size": 8, "rate_rule": "range"}
    job = estimated(job_make(training=training, **wish(timezone.now() + timedelta(hours=9))), run_s=3600)
    commit(job_submit, user=people.mate, job=job, promised=wanted)
    assert rates_advance() == 1
    estimated(job, run_s=36_000)  # found to take longer than was thought
    answered(job.rate_tests.get())
    job.refresh_from_db()
    assert (job.state, job.promised_at) == (after, None)


def test_without_an_answer_the_usual_rule_is_taken_and_told(
    waiting: Job, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any]
) -> None:
    node_make("node-1")
    ask_first(waiting, people.owner, commit, tasks_sent)
    answered(waiting.rate_tests.get(), record=record_make(noise=50.0, seed=3).to_dict())
    waiting.refresh_from_db()
    assert waiting.state == "queued"
    assert waiting.resolved["spec"]["training"]["rate_rule"] == "sqrt"
    assert any("found no learning rate" in event.message for event in waiting.events.all())


def test_a_test_waits_for_a_device_but_not_for_ever(
    waiting: Job, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any]
) -> None:
    ask_first(waiting, people.owner, commit, tasks_sent)
    test = waiting.rate_tests.get()
    assert (test.state, test.node_name) == ("waiting", "")
    node_make("node-1")
    assert rates_advance() == 1
    test.refresh_from_db()
    assert test.node_name == "node-1"
    RateTest.objects.update(sent_at=None, node_name="", created_at=timezone.now() - timedelta(hours=1))
    Reservation.objects.update(cancelled_at=timezone.now())
    node_make("node-1", cpus=0)
    rates_advance()
    waiting.refresh_from_db()
    assert waiting.state == "queued"


def project_end(*, user: Any, job: Job) -> None:
    project_delete(user=user, project=job.project, name=job.project.name)


@pytest.mark.parametrize("end", [job_cancel, job_delete, project_end], ids=["cancelled", "deleted", "project deleted"])
@pytest.mark.parametrize("nodes", [0, 1], ids=["waits for a device", "under way"])
def test_a_test_is_called_off_with_the_job_that_waited_for_it(
    waiting: Job, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any], end: Any, nodes: int
) -> None:
    for _ in range(nodes):
        node_make("node-1")
    ask_first(waiting, people.owner, commit, tasks_sent)
    test = waiting.rate_tests.get()
    end(user=people.owner, job=waiting)
    node_make("node-1")
    assert commit(rates_advance) == 0
    test.refresh_from_db()
    assert (test.state, test.submit, bool(test.sent_at)) == ("failed", False, bool(nodes))
    assert "cancelled or deleted" in test.problem["message"]
    assert not Reservation.objects.filter(cancelled_at=None).exists()
    stopped = [(arguments, queue) for name, arguments, queue in tasks_sent if name == "node.rate_stop"]
    assert stopped == [([test.pk], "node.node-1")] * nodes
    answered(test)
    waiting.refresh_from_db()
    assert waiting.state != "queued"


@pytest.mark.parametrize("nodes", [0, 1], ids=["waits for a device", "under way"])
def test_a_test_is_called_off_when_its_job_is_submitted_with_a_rate_of_its_own(
    waiting: Job, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any], nodes: int
) -> None:
    for _ in range(nodes):
        node_make("node-1")
    ask_first(waiting, people.owner, commit, tasks_sent)
    test = waiting.rate_tests.get()
    spec = {**waiting.spec, "training": {**waiting.spec["training"], "learning_rate": 0.0123}}
    job_spec_update(user=people.owner, job=waiting, spec=spec)
    commit(job_submit, user=people.owner, job=waiting)
    assert commit(rates_advance) == 0
    test.refresh_from_db()
    waiting.refresh_from_db()
    assert (waiting.state, test.state, test.submit) == ("queued", "failed", False)
    assert "it was submitted" in test.problem["message"]
    assert not Reservation.objects.filter(cancelled_at=None).exists()


def test_trials_are_called_off_with_the_job_that_waited_for_them(
    waiting: Job, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any]
) -> None:
    node_make("node-1")
    ask_first(waiting, people.mate, commit, tasks_sent)
    test = waiting.rate_tests.get()
    rate_range_done(report_make(test.pk, run_s=5.0))
    job_cancel(user=people.mate, job=waiting)
    assert commit(rates_advance) == 0
    test.refresh_from_db()
    assert (test.state, test.trials["state"]) == ("done", "failed")
    assert not Reservation.objects.filter(cancelled_at=None).exists()
    assert "node.rate_stop" in [name for name, *_ in tasks_sent]


def test_a_test_that_nobody_waits_for_goes_on_when_its_job_is_cancelled(
    job_make: Any, people: SimpleNamespace, node_make: Any, commit: Any
) -> None:
    node_make("node-1")
    job = job_make()
    rate_test_start(user=people.mate, job=job)
    job_cancel(user=people.mate, job=job)
    assert commit(rates_advance) == 1


def test_a_submission_outlives_a_control_that_dies_while_it_submits(
    waiting: Job, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    node_make("node-1")
    ask_first(waiting, people.mate, commit, tasks_sent)
    with monkeypatch.context() as dying, pytest.raises(SystemExit):
        dying.setattr("harness.rates.submitting.job_admit", lambda job, **_: sys.exit(1))
        answered(waiting.rate_tests.get())
    waiting.refresh_from_db()
    assert waiting.state == "draft"
    assert rates_advance() == 0
    waiting.refresh_from_db()
    assert waiting.state == "queued"
    assert waiting.spec["training"]["learning_rate"] == waiting.rate_tests.get().used_rate


def test_a_late_test_that_somebody_looks_at_still_has_its_job_submitted(
    waiting: Job, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any]
) -> None:
    node_make("node-1")
    ask_first(waiting, people.owner, commit, tasks_sent)
    RateTest.objects.update(sent_at=timezone.now() - timedelta(seconds=sending.ANSWER_LIMIT_S + 1))
    plain = rate_test_start(user=people.owner, job=waiting)  # ends the late one, which nobody answers
    assert rates_advance() == 1
    waiting.refresh_from_db()
    assert waiting.state == "queued"
    assert waiting.resolved["spec"]["training"]["rate_rule"] == "sqrt"
    plain.refresh_from_db()
    assert plain.state == "waiting"


def test_a_late_test_of_a_job_that_is_submitted_again_gives_way_to_a_new_one(
    waiting: Job, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any]
) -> None:
    node_make("node-1")
    ask_first(waiting, people.owner, commit, tasks_sent)
    RateTest.objects.update(sent_at=timezone.now() - timedelta(seconds=sending.ANSWER_LIMIT_S + 1))
    commit(job_submit, user=people.owner, job=waiting)
    assert rates_advance() == 1
    waiting.refresh_from_db()
    assert waiting.state == "draft"
    answered(waiting.rate_tests.get(state="waiting"))
    waiting.refresh_from_db()
    assert waiting.state == "queued"


def test_one_test_that_cannot_go_on_keeps_no_other(
    waiting: Job, job: Job, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    node_make("node-1", cpus=2)
    ask_first(waiting, people.owner, commit, tasks_sent)
    other = rate_test_start(user=people.owner, job=job)
    RateTest.objects.update(sent_at=timezone.now() - timedelta(seconds=sending.ANSWER_LIMIT_S + 1))
    with monkeypatch.context() as full:
        full.setattr("harness.rates.first.usual_rule", lambda _: (_ for _ in ()).throw(OSError("disk full")))
        assert rates_advance() == 0
    other.refresh_from_db()
    waiting.refresh_from_db()
    assert (other.state, waiting.state) == ("failed", "draft")
    rates_advance()
    waiting.refresh_from_db()
    assert waiting.state == "queued"


def test_a_fault_of_ours_ends_a_test_and_its_job_is_submitted_by_the_usual_rule(
    waiting: Job, people: SimpleNamespace, commit: Any, tasks_sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_first(waiting, people.owner, commit, tasks_sent)
    with monkeypatch.context() as broken:
        broken.setattr(sending, "idle_device", lambda *_, **__: {}["device"])
        assert rates_advance() == 0
    test = waiting.rate_tests.get()
    assert test.state == "failed"
    assert re.fullmatch(
        r"The range test broke off: KeyError \(see the log of control, id \w{12}\)", test.problem["message"]
    )
    rates_advance()
    waiting.refresh_from_db()
    assert waiting.state == "queued"


@pytest.fixture
def unanswered(waiting: Job, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any]) -> Job:
    """A job that waits for its range test, of which no node has said a word in time."""
    node_make("node-1")
    ask_first(waiting, people.owner, commit, tasks_sent)
    RateTest.objects.update(sent_at=timezone.now() - timedelta(seconds=sending.ANSWER_LIMIT_S + 1))
    return waiting


def test_a_job_that_cannot_be_submitted_after_its_test_says_so_and_is_let_be(
    unanswered: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.rates.first.usual_rule", lambda _: {}["rule"])
    rates_advance()
    unanswered.refresh_from_db()
    assert unanswered.state == "draft" and not unanswered.rate_tests.get().submit
    told = unanswered.events.latest("pk").message
    assert re.match(r"Not submitted: KeyError \(see the log of control, id \w{12}\)\. Ask again;", told)


def locked(*_: Any) -> Any:
    raise PermissionError(13, "Permission denied", "/srv/secret")


def test_a_test_that_a_passing_cause_keeps_from_its_device_waits_for_a_limited_time(
    waiting: Job, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    ask_first(waiting, people.owner, commit, tasks_sent)
    node_make("node-1")
    monkeypatch.setattr(sending, "programs", SimpleNamespace(**{**vars(sending.programs), "files_replace": locked}))
    assert rates_advance() == 1
    RateTest.objects.update(created_at=timezone.now() - timedelta(seconds=sending.WAIT_LIMIT_S + 1))
    assert rates_advance() == 0
    test = waiting.rate_tests.get()
    assert test.state == "failed" and "PermissionError" in test.problem["message"]
    assert "/srv/secret" not in str(test.problem)
    rates_advance()
    waiting.refresh_from_db()
    assert waiting.state == "queued"


def test_a_job_that_a_passing_cause_keeps_from_being_submitted_after_its_test_says_so_in_the_end(
    unanswered: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.rates.first.usual_rule", locked)
    rates_advance()
    rates_advance()
    assert unanswered.rate_tests.get().submit, "it is tried again"
    RateTest.objects.update(finished_at=timezone.now() - timedelta(seconds=sending.WAIT_LIMIT_S + 1))
    rates_advance()
    assert not unanswered.rate_tests.get().submit
    assert unanswered.events.latest("pk").message.startswith(
        "Not submitted: PermissionError (see the log of control, id "
    )


def test_a_job_with_the_usual_batch_or_a_given_rate_is_submitted_at_once(
    job_make: Any, people: SimpleNamespace, commit: Any, tasks_sent: list[Any]
) -> None:
    for training in ({"rate_rule": "range"}, {"rate_rule": "range", "batch_size": 8, "learning_rate": 0.01}):
        job = job_make(training=training)
        commit(job_submit, user=people.owner, job=job)
        job.refresh_from_db()
        assert job.state == "queued"
    assert "control.rate_first" not in {sent[0] for sent in tasks_sent}

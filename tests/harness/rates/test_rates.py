"""Range tests: asked for, answered in any form, used; and jobs that wait for one before they are submitted."""

from __future__ import annotations

import math
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from django.conf import settings
from django.utils import timezone

from harness.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from harness.jobs import drafts
from harness.jobs.control.views import facts_read
from harness.jobs.models import Job
from harness.jobs.services import program_file_write
from harness.pool.models import Device, Node, NodeState, Reservation
from harness.rates import sending
from harness.rates.models import RateTest
from harness.rates.retention import rates_advance
from harness.rates.selectors import rate_curve, rate_names, rate_test_is_current
from harness.rates.services import KEPT, rate_test_start, rate_use
from harness.rates.submitting import job_submit
from harness.rates.tasks import rate_range_done
from harness.rates.trials import trials_most_s
from scheduler.admit import admit
from scheduler.types import JobView, Option
from tests.factory_rates import record_make, report_make
from tests.factory_reservations import reservation_create
from tests.harness.jobs.helpers import place_now
from tests.harness.rates.answers import answered, reserved

DEEP: list = []
for _ in range(100):
    DEEP = [DEEP]


@pytest.fixture
def asked_test(job: Job, people: SimpleNamespace, node_make: Any) -> RateTest:
    """A test that a node works on."""
    node_make("node-1")
    return rate_test_start(user=people.owner, job=job)


def test_a_node_is_asked_with_the_program_and_its_device_is_kept(
    job: Job, people: SimpleNamespace, node_make: Any, commit: Any, tasks_sent: list[Any]
) -> None:
    node_make("node-1")
    test = commit(rate_test_start, user=people.mate, job=job, low=1e-5)
    ((name, (request,), queue),) = [sent for sent in tasks_sent if sent[0] == "node.rate_range"]
    assert (name, queue) == ("node.rate_range", "node.node-1")
    assert request["request_id"] == test.pk
    assert request["low"] == 1e-5 and request["batch_size"] == job.resolved["spec"]["training"]["batch_size"]
    assert (settings.STORE.root / "inspections" / f"rates-{test.pk}" / "program" / "train.py").is_file()
    kept = Reservation.objects.get()
    assert job.name not in kept.purpose and not kept.open_ended
    assert kept.planned_until is not None and kept.planned_until > kept.ends_at  # trials may follow
    assert rate_test_start(user=people.owner, job=job).pk == test.pk  # the one that goes on


@pytest.mark.parametrize("is_own", [True, False])
def test_a_finish_is_promised_for_after_the_test_on_the_device_that_it_keeps(
    job: Job, people: SimpleNamespace, node_make: Any, commit: Any, is_own: bool
) -> None:
    node_make("node-1", cpus=1)
    if is_own:
        until = timezone.now() + timedelta(days=1)
        reservation_create(user=people.admin, node="node-1", ends_at=until, purpose="Ours", project=job.project)
    commit(rate_test_start, user=people.mate, job=job)
    facts, option = facts_read(), Option(kind="cpu", count=1, rate_per_s=0.01)
    view = JobView(
        job_id="other", project=job.project_id, options=(option,), submitted_s=facts.now_s,
        deadline_s=facts.now_s + 3600.0,
    )  # fmt: skip
    found = admit(view, facts.views, facts.pool, facts.now_s)
    assert found.accepted and found.finish_s is not None
    most_s = sending.ANSWER_LIMIT_S + trials_most_s("auto") + sending.ANSWER_SPARE_S
    assert found.finish_s == pytest.approx(facts.now_s + most_s + 100.0, abs=5.0)


def test_an_answer_gives_interval_centre_and_alternatives(asked_test: RateTest, job: Job) -> None:
    rate_range_done({"request_id": asked_test.pk, "progress": 0.4})
    asked_test.refresh_from_db()
    assert (asked_test.state, asked_test.progress) == ("waiting", 0.4)
    test = answered(asked_test)
    assert test.state == "done" and not reserved()
    names = rate_names(test)
    assert names["low"] < names["centre"] < names["high"]
    assert {"valley", "steepest", "minimum_tenth", "linear", "sqrt"} <= set(names)
    assert len(rate_curve(test)) > 50
    assert not (settings.STORE.root / "inspections" / f"rates-{test.pk}").exists()
    rate_range_done(report_make(test.pk, problem={"code": "late", "message": "twice", "hint": ""}))
    test.refresh_from_db()
    assert test.state == "done"


def test_the_centre_goes_into_the_spec_and_the_program(asked_test: RateTest, job: Job, people: SimpleNamespace) -> None:
    test = answered(asked_test)
    program_file_write(user=people.owner, job=job, name="extra.py", text="x = 1\n")
    job = rate_use(user=people.mate, job=job, test=test)
    centre = float(f"{rate_names(test)['centre']:.3g}")
    assert job.spec["training"]["learning_rate"] == centre == test.used_rate
    written = (settings.STORE.job(job.pk).program / "spec.yaml").read_text()
    assert yaml.safe_load(written)["training"]["learning_rate"] == centre
    assert (settings.STORE.job(job.pk).program / "extra.py").is_file()


def test_another_rate_makes_no_other_program_but_an_edit_does(
    asked_test: RateTest, job: Job, people: SimpleNamespace
) -> None:
    test = answered(asked_test)
    job = rate_use(user=people.owner, job=job, test=test, rate=0.005)
    assert rate_test_is_current(test, job)
    program_file_write(user=people.owner, job=job, name="model.py", text="def build(spec):\n    return 1\n")
    assert not rate_test_is_current(test, job)


def test_a_spec_that_is_saved_while_a_rate_is_put_into_it_is_not_undone(
    asked_test: RateTest, job: Job, people: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate = drafts._generate

    def saved_meanwhile(*given: Any) -> Any:
        monkeypatch.setattr(drafts, "_generate", generate)
        there = Job.objects.get(pk=job.pk)
        training = {**there.spec["training"], "epochs": 9}
        drafts.job_spec_update(user=people.mate, job=there, spec={**there.spec, "training": training})
        return generate(*given)

    monkeypatch.setattr(drafts, "_generate", saved_meanwhile)
    with pytest.raises(Conflict, match="was changed since it was read"):
        rate_use(user=people.owner, job=job, test=asked_test, rate=0.005)
    kept = Job.objects.get(pk=job.pk).spec["training"]
    assert (kept["epochs"], kept["learning_rate"]) == (9, "auto")
    changed = rate_use(user=people.owner, job=Job.objects.get(pk=job.pk), test=asked_test, rate=0.005)
    assert (changed.spec["training"]["epochs"], changed.spec["training"]["learning_rate"]) == (9, 0.005)


def test_a_rate_that_is_none_is_refused_by_its_field(asked_test: RateTest, job: Job, people: SimpleNamespace) -> None:
    test = answered(asked_test)
    for rate in ("", "good", "middle", math.nan, math.inf, 0.0, -1.0, 1e9):
        with pytest.raises(Invalid) as refused:
            rate_use(user=people.owner, job=job, test=test, rate=rate)
        assert refused.value.field == "rate"
    job.refresh_from_db()
    assert job.spec["training"]["learning_rate"] == "auto"


def test_a_bad_wish_is_refused_by_its_field(job: Job, people: SimpleNamespace, node_make: Any) -> None:
    node_make("node-1")
    for asked, field in (
        ({"kind": "tpu"}, "device"), ({"kind": "cuda"}, "device"), ({"low": 0.0}, "low"), ({"low": math.nan}, "low"),
        ({"high": math.inf}, "high"),
        ({"low": 1.0, "high": 2.0}, "high"), ({"low": 5.0}, "low"), ({"high": 1e30}, "high"), ({"high": 101.0}, "high"),
    ):  # fmt: skip
        with pytest.raises(Invalid) as refused:
            rate_test_start(user=people.owner, job=job, **asked)
        assert refused.value.field == field
    assert not RateTest.objects.exists() and not reserved()


def test_a_kind_of_device_whose_nodes_are_down_is_there_to_be_waited_for(
    job: Job, people: SimpleNamespace, node_make: Any
) -> None:
    node_make("node-1", gpus=1)
    Node.objects.update(state=NodeState.DOWN)
    with pytest.raises(Unavailable, match="No node that is up has a device of the kind cuda"):
        rate_test_start(user=people.owner, job=job, kind="cuda")
    Device.objects.filter(kind="cuda").delete()
    with pytest.raises(Invalid, match="The pool has no device of the kind cuda"):
        rate_test_start(user=people.owner, job=job, kind="cuda")


def test_only_members_may_test_and_use(asked_test: RateTest, job: Job, people: SimpleNamespace) -> None:
    test = answered(asked_test)
    for name, refusal in (("viewer", Forbidden), ("outsider", NotFound)):
        with pytest.raises(refusal):
            rate_test_start(user=getattr(people, name), job=job)
        with pytest.raises(refusal):
            rate_use(user=getattr(people, name), job=job, test=test)


def test_no_device_that_runs_a_job_is_taken(job: Job, job_make: Any, people: SimpleNamespace, node_make: Any) -> None:
    node_make("node-1", cpus=1)
    place_now(job_make(name="runs"))
    with pytest.raises(Unavailable, match="No device is idle"):
        rate_test_start(user=people.owner, job=job)
    assert not RateTest.objects.exists()


def test_a_submitted_job_may_be_tested_but_its_spec_stays(job: Job, people: SimpleNamespace, node_make: Any) -> None:
    node_make("node-1")
    job_submit(user=people.owner, job=job)
    test = answered(rate_test_start(user=people.owner, job=job))
    with pytest.raises(Conflict):
        rate_use(user=people.owner, job=job, test=test)


BAD_ANSWERS = (
    {"record": None}, {"record": DEEP}, {"record": {"rates": [1], "sweeps": "many"}}, {"record": {}},
    {"record": {"rates": [10**400], "sweeps": []}}, {"problem": DEEP}, {"problem": "bad"},
    {"problem": {"message": "no\0"}}, {"record": record_make(steps=10).to_dict()},
    {"record": record_make(noise=50.0, seed=3).to_dict()},
)  # fmt: skip


def test_an_answer_that_says_nothing_ends_the_test_and_frees_its_device(
    job: Job, people: SimpleNamespace, node_make: Any
) -> None:
    node_make("node-1")
    for report in BAD_ANSWERS:
        test = answered(rate_test_start(user=people.owner, job=job), **report)
        assert test.state == "failed"
        assert test.problem["message"]
        assert not reserved()
        rate_curve(test)


def test_a_progress_that_is_none_changes_nothing(asked_test: RateTest) -> None:
    for share in (math.nan, -1, 2, "half", True, DEEP):
        rate_range_done({"request_id": asked_test.pk, "progress": share})
        asked_test.refresh_from_db()
        assert asked_test.state == "waiting" and 0.0 <= asked_test.progress <= 1.0


def test_a_test_that_nobody_answers_fails_and_another_may_follow(
    asked_test: RateTest, job: Job, people: SimpleNamespace
) -> None:
    RateTest.objects.update(sent_at=timezone.now() - timedelta(seconds=sending.ANSWER_LIMIT_S + 1))
    rates_advance()
    asked_test.refresh_from_db()
    assert (asked_test.state, asked_test.problem["code"]) == ("failed", "no_answer")
    assert not reserved()
    assert rate_test_start(user=people.owner, job=job).pk != asked_test.pk


def test_old_tests_of_a_job_go(job: Job, people: SimpleNamespace, node_make: Any) -> None:
    node_make("node-1")
    for _ in range(KEPT + 2):
        newest = answered(rate_test_start(user=people.owner, job=job))
    assert job.rate_tests.count() == KEPT
    assert job.rate_tests.order_by("-created_at").first() == newest

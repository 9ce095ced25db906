"""Write range tests: start one, put a rate into a draft, submit a job whose spec asks for a test first."""

from __future__ import annotations

import math
from typing import Any

from django.db import transaction

from codegen.catalog.rates import usual_rule
from harness.accounts.access import require
from harness.accounts.models import Role, User
from harness.errors import Conflict, HarnessError, Invalid, Unavailable
from harness.estimates.models import AskState
from harness.jobs import services as jobs
from harness.jobs.models import Job
from harness.jobs.states import job_note
from harness.pool.models import DeviceKind
from harness.rates.models import RateTest
from harness.rates.reference import rates_by_rules
from harness.rates.selectors import rate_by_name, rate_names
from harness.rates.sending import rate_test_expire, rate_test_send
from harness.rates.trials import WISHES
from worker.states import JobState

KEPT = 5
"""Tests of a job that are kept, the newest."""
LOWEST, HIGHEST = 1e-12, 1e6


def rate_test_start(
    *,
    user: User,
    job: Job,
    kind: str = "",
    low: float | None = None,
    high: float | None = None,
    trials: str = "auto",
) -> RateTest:
    """Have an idle device make a range test of the job's program; one that is being made is answered again.

    `trials`: whether short trainings around its centre follow, `auto` where they cost little, `always`, `never`.

    Raises `NotFound`, `Forbidden`, `Invalid`, `Conflict`, `Unavailable` (no device of that kind is idle).
    """
    test, is_new = _test_of(user, job, _wish(kind, low, high, trials))
    if is_new:
        try:
            rate_test_send(test)
        except HarnessError:
            test.delete()
            raise
        _forget_old(job)
    return test


def _test_of(user: User, job: Job, wish: dict[str, Any]) -> tuple[RateTest, bool]:
    require(user, job.project, Role.MEMBER)
    if job.deleted_at:
        raise Conflict("This job is in the trash.", hint="Restore it first.")
    running = job.rate_tests.filter(state=AskState.WAITING).order_by("-created_at").first()
    if running is not None:
        rate_test_expire(running)
        if running.state == AskState.WAITING:
            return running, False
    return RateTest.objects.create(job=job, by=user, wish=wish, rules=rates_by_rules(job)), True


def _forget_old(job: Job) -> None:
    kept = list(job.rate_tests.order_by("-created_at").values_list("pk", flat=True)[:KEPT])
    job.rate_tests.exclude(pk__in=kept).exclude(state=AskState.WAITING).exclude(submit=True).delete()


def _wish(kind: str, low: float | None, high: float | None, trials: str) -> dict[str, Any]:
    if kind and kind not in DeviceKind.values:
        raise Invalid(f"There is no kind of device {kind[:40]!r}.", field="device", hint="Take cpu or cuda.")
    if trials not in WISHES:
        raise Invalid(f"Trials are not made {trials[:40]!r}.", field="trials", hint=f"Take {', '.join(WISHES)}.")
    for name, value in (("low", low), ("high", high)):
        if value is not None and not (math.isfinite(value) and LOWEST <= value <= HIGHEST):
            raise Invalid(
                f"{name} must lie between {LOWEST:g} and {HIGHEST:g}.", field=name, hint="Usual are 1e-6 and 10."
            )
    lowest, highest = low or 1e-6, high or 10.0
    if highest < 100.0 * lowest:
        raise Invalid(
            "The rates must span two decades at least.", field="high" if high else "low",
            hint=f"From {lowest:g} they have to go up to {100.0 * lowest:g}.",
        )  # fmt: skip
    return {"kind": kind, "low": low, "high": high, "trials": trials}


def rate_use(*, user: User, job: Job, test: RateTest, rate: str | float = "best") -> Job:
    """Put a rate of the test, by name or as a number, into the spec of a draft.

    Raises `NotFound`, `Forbidden`, `Conflict` (no draft any more), `Invalid` (field `rate`).
    """
    require(user, job.project, Role.MEMBER)
    value = rate_by_name(test, rate) if isinstance(rate, str) else float(rate)
    if not (math.isfinite(value) and LOWEST <= value <= HIGHEST):
        raise Invalid("A learning rate is a number above 0.", field="rate", hint="Give the centre, or 0.001.")
    value = float(f"{value:.3g}")
    training = {**job.spec.get("training", {}), "learning_rate": value}
    job = jobs.job_spec_update(user=user, job=job, spec={**job.spec, "training": training})
    RateTest.objects.filter(pk=test.pk).update(used_rate=value)
    test.used_rate = value
    return job


# ---- a test before a job is submitted ------------------------------------------------------------------------------
def rate_want(*, user: User, job: Job) -> RateTest:
    """Note that a draft is to be tested and then submitted: a row, which outlives every message. Asked twice, one test.

    Raises `NotFound`, `Forbidden`, `Conflict`.
    """
    rule = (job.resolved.get("spec") or {}).get("training", {}).get("rate_rule")
    test, _ = _test_of(user, job, _wish("", None, None, "always" if rule == "trials" else "auto"))
    with transaction.atomic():
        # It takes the place of one that has ended and whose job was not submitted yet.
        job.rate_tests.exclude(pk=test.pk).filter(submit=True).update(submit=False)
        RateTest.objects.filter(pk=test.pk).update(submit=True)
    test.submit = True
    return test


def rate_first(job_id: str, user_id: int) -> None:
    """Make the test that a draft waits for now, if a device is idle; else `rates_advance` makes it later."""
    job = Job.objects.select_related("project", "dataset").filter(pk=job_id, state=JobState.DRAFT).first()
    user = User.objects.filter(pk=user_id).first()
    if job is None or user is None:
        return
    try:
        test = rate_want(user=user, job=job)
    except HarnessError as error:
        job_note(job, "person", f"Not submitted: {error.message}", actor=user)
        return
    if test.sent_at is None:
        rate_test_try(test)
        _forget_old(job)


def rate_test_try(test: RateTest) -> None:
    """Send a test that waits for a device; it goes on waiting where none is idle."""
    try:
        rate_test_send(test)
    except Unavailable:
        rate_test_expire(test)
        if test.state == AskState.FAILED:
            rate_after(test)
    except HarnessError as error:
        problem = {"code": error.code, "message": error.message, "hint": error.hint}
        RateTest.objects.filter(pk=test.pk, state=AskState.WAITING).update(state=AskState.FAILED, problem=problem)
        test.refresh_from_db()
        rate_after(test)


def rate_after(test: RateTest) -> None:
    """Submit what waited for the test: with its best rate, or by the usual rule where it says nothing.

    The wish goes with the same commit that submits: who dies in between leaves it to `rates_advance`.
    """
    with transaction.atomic():
        draft = Job.objects.select_for_update(of=("self",)).select_related("project", "dataset")
        job = draft.filter(pk=test.job_id, state=JobState.DRAFT).first()
        taken = RateTest.objects.filter(pk=test.pk, submit=True).exclude(state=AskState.WAITING).update(submit=False)
        if job is not None and taken:
            _submit_after(test, job)


def _submit_after(test: RateTest, job: Job) -> None:
    try:
        if test.state == AskState.DONE:
            job = rate_use(user=test.by, job=job, test=test)
            how = "a range test and trials" if "trials" in rate_names(test) else "a range test"
            job_note(job, "person", f"Learning rate {test.used_rate:g} by {how}", actor=test.by)
        else:
            job = _by_usual_rule(test, job)
        jobs.job_submit(user=test.by, job=job, promised=job.promise != jobs.UNPROMISED)
    except HarnessError as error:
        job_note(job, "person", f"Not submitted: {error.message}", actor=test.by)


def _by_usual_rule(test: RateTest, job: Job) -> Job:
    training = job.spec.get("training", {})
    rule = usual_rule(str((job.resolved.get("spec") or {}).get("training", {}).get("optimizer", "")))
    spec = {**job.spec, "training": {**training, "rate_rule": rule}}
    job = jobs.job_spec_update(user=test.by, job=job, spec=spec)
    why = (test.problem or {}).get("message") or "no reason was told"
    job_note(job, "person", f"The range test told no learning rate ({why}); the rule {rule} is used", actor=test.by)
    return job

"""Write range tests: start one, put a rate into a draft, note that a draft waits for one (`first` goes on with it)."""

from __future__ import annotations

import math
from typing import Any

from django.db import transaction

from harness.accounts.access import require
from harness.accounts.models import Role, User
from harness.errors import Conflict, HarnessError, Invalid
from harness.estimates.models import AskState
from harness.estimates.offers import job_key
from harness.estimates.probes import pool_has_check
from harness.estimates.rate_wishes import rate_is_automatic, rate_of, rule_of
from harness.jobs.drafts import job_spec_update
from harness.jobs.models import Job
from harness.jobs.options import job_options_set, options_of, wanted_devices, wanted_model
from harness.jobs.spec_marks import spec_mark
from harness.jobs.states import job_note
from harness.pool.models import DeviceKind
from harness.rates.automatic import changed_words
from harness.rates.models import RateTest
from harness.rates.reference import rates_by_rules
from harness.rates.selectors import rate_by_name
from harness.rates.sending import rate_test_expire, rate_test_send
from harness.rates.trials import WISHES
from worker.rate_search import HIGHEST, LOWEST, range_fault

KEPT = 5
"""Tests of a job that are kept, the newest."""


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
    wish = _wish(kind, low, high, trials)
    pool_has_check(kind)
    test, is_new = _test_of(user, job, wish)
    if is_new:
        try:
            rate_test_send(test)
        except HarnessError:
            test.delete()
            raise
        tests_forget(job)
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


def tests_forget(job: Job) -> None:
    """Forget all but the newest tests of a job that have ended."""
    kept = list(job.rate_tests.order_by("-created_at").values_list("pk", flat=True)[:KEPT])
    job.rate_tests.exclude(pk__in=kept).exclude(state=AskState.WAITING).exclude(submit=True).delete()


def _wish(kind: str, low: float | None, high: float | None, trials: str) -> dict[str, Any]:
    if kind and kind not in DeviceKind.values:
        raise Invalid(f"There is no kind of device {kind[:40]!r}.", field="device", hint="Use cpu or cuda.")
    if trials not in WISHES:
        raise Invalid(f"Trials are not made {trials[:40]!r}.", field="trials", hint=f"Use {', '.join(WISHES)}.")
    if fault := range_fault(low, high):
        raise Invalid(fault.message, field=fault.field, hint=fault.hint)
    return {"kind": kind, "low": low, "high": high, "trials": trials}


def rate_use(*, user: User, job: Job, test: RateTest, rate: str | float = "best") -> Job:
    """Put a rate of the test, by name or as a number, into the spec of a draft.

    Raises `NotFound`, `Forbidden`, `Conflict` (no draft any more), `Invalid` (field `rate`).
    """
    require(user, job.project, Role.MEMBER)
    value = rate_by_name(test, rate) if isinstance(rate, str) else float(rate)
    if not (math.isfinite(value) and LOWEST <= value <= HIGHEST):
        raise Invalid(
            f"A learning rate is a number above 0, at most {HIGHEST:g}.",
            field="rate", hint="Give the centre, or 0.001.",
        )  # fmt: skip
    value = float(f"{value:.3g}")
    job = training_set(user, job, learning_rate=value)
    RateTest.objects.filter(pk=test.pk).update(used_rate=value)
    test.used_rate = value
    return job


def training_set(user: User, job: Job, **fields: Any) -> Job:
    """The draft with other fields of `training`; what was estimated stays where neither work nor devices change.

    Raises `Conflict` where somebody gives it another spec meanwhile, besides what `job_spec_update` raises.
    """
    job.refresh_from_db(fields=["spec", "resolved", "options", "slowdown"])
    options, slowdown = options_of(job) if job.options else (), job.slowdown
    before = job_key(job), wanted_devices(job), wanted_model(job)
    training = {**job.spec.get("training", {}), **fields}
    job = job_spec_update(user=user, job=job, spec={**job.spec, "training": training}, seen=spec_mark(job))
    if options and before == (job_key(job), wanted_devices(job), wanted_model(job)):
        job_options_set(job, options, slowdown=slowdown)
    return job


# ---- a test before a job is submitted ------------------------------------------------------------------------------
def rate_want(*, user: User, job: Job) -> RateTest:
    """Note that a draft is to be tested and then submitted: a row, which outlives every message. Asked twice, one test.

    Raises `NotFound`, `Forbidden`, `Conflict`.
    """
    if rate_is_automatic(job):
        # A share of the run is what it may take: on a device of the run's own kind, and without trials.
        wish = _wish(wanted_devices(job)[0], None, None, "never") | {"automatic": True}
    else:
        wish = _wish("", None, None, "always" if rule_of(job) == "trials" else "auto")
    test, _ = _test_of(user, job, wish)
    with transaction.atomic():
        # It takes the place of one that has ended and whose job was not submitted yet.
        job.rate_tests.exclude(pk=test.pk).filter(submit=True).update(submit=False)
        RateTest.objects.filter(pk=test.pk).update(submit=True)
    test.submit = True
    return test


def rate_rule_note(job: Job, why: str) -> None:
    """That the rate in the program, by its rule, is the one that the job is submitted with."""
    told = f"by the rule {rule_of(job)}: {changed_words(job)}; {why}"
    job_note(job, "note", f"Learning rate {rate_of(job):g} {told}", data={"learning_rate": rate_of(job), "why": told})

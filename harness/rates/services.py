"""Write range tests: start one, put a rate into a draft, submit the job that waited for one."""

from __future__ import annotations

import logging
import math
from typing import Any

from django.db import transaction
from django.utils import timezone

from codegen.catalog.rates import usual_rule
from harness.accounts.access import require
from harness.accounts.models import Role, User
from harness.errors import Conflict, HarnessError, Invalid, Unavailable, fault_told
from harness.estimates.models import AskState
from harness.estimates.offers import job_key
from harness.estimates.probes import pool_has_check
from harness.jobs import services as jobs
from harness.jobs.models import Job
from harness.jobs.options import job_options_set, options_of, wanted_devices
from harness.jobs.promises import PromiseState, promise_state
from harness.jobs.states import job_note
from harness.pool.models import DeviceKind
from harness.rates.automatic import DECIDES, Way, changed_words, draft_key, program_read, rate_verdict
from harness.rates.models import RateTest
from harness.rates.reference import rates_by_rules
from harness.rates.selectors import rate_by_name, rate_found, rate_names, rate_test_is_current
from harness.rates.sending import rate_test_expire, rate_test_fail, rate_test_send
from harness.rates.trials import WISHES
from harness.rates.wishes import rate_is_asked, rate_is_automatic, rate_of, rule_of
from worker.rate_search import HIGHEST, LOWEST, range_fault
from worker.states import JobState

KEPT = 5
"""Tests of a job that are kept, the newest."""
_log = logging.getLogger(__name__)
_LOGGED = "Ask again; if that fails too, an admin finds the reason there."
NOT_WORTH = "not_worth"
"""Code of an automatic test that would take too long beside the run, as was found when its program had been read."""


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
    job = _with_training(user, job, learning_rate=value)
    RateTest.objects.filter(pk=test.pk).update(used_rate=value)
    test.used_rate = value
    return job


def _with_training(user: User, job: Job, **fields: Any) -> Job:
    """The draft with other fields of `training`; what was estimated stays where neither work nor devices change."""
    options, slowdown = options_of(job) if job.options else (), job.slowdown
    before = job_key(job), wanted_devices(job)
    training = {**job.spec.get("training", {}), **fields}
    job = jobs.job_spec_update(user=user, job=job, spec={**job.spec, "training": training})
    if options and before == (job_key(job), wanted_devices(job)):
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
    """Send a test that waits for a device; it goes on waiting where none is idle.

    One that nobody asked for waits until the program is read, and is made if it is worth its time then.
    """
    try:
        if test.wish.get("automatic") and not _is_due(test):
            return
        rate_test_send(test)
    except Unavailable:
        rate_test_expire(test)
        if test.state == AskState.FAILED:
            rate_after(test)
    except HarnessError as error:
        problem = {"code": error.code, "message": error.message, "hint": error.hint}
        RateTest.objects.filter(pk=test.pk, state=AskState.WAITING).update(
            state=AskState.FAILED, problem=problem, finished_at=timezone.now()
        )  # fmt: skip
        test.refresh_from_db()
        rate_after(test)


def _is_due(test: RateTest) -> bool:
    """Whether an automatic test is to be made now; one that is not worth it fails. Raises `HarnessError`."""
    draft = draft_key(test.job)
    if test.wish.get("worth") == draft:
        return True  # it only waits for a device since then
    verdict = rate_verdict(test.job)
    test.job.refresh_from_db(fields=DECIDES)
    if draft_key(test.job) != draft:
        return False  # it was changed meanwhile, and is judged at the next look
    if verdict.way is Way.TEST:
        test.wish = {**test.wish, "worth": draft}
        RateTest.objects.filter(pk=test.pk, state=AskState.WAITING).update(wish=test.wish)
        return True
    rate_test_expire(test)
    if verdict.way is Way.READ and test.state == AskState.WAITING:
        program_read(test.job)
        return False
    RateTest.objects.filter(pk=test.pk, state=AskState.WAITING).update(
        state=AskState.FAILED, finished_at=timezone.now(),
        problem={"code": NOT_WORTH, "message": f"No test: {verdict.why}.", "hint": ""},
    )  # fmt: skip
    test.refresh_from_db()
    rate_after(test)
    return False


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


def rate_test_break(test: RateTest, error: Exception) -> None:
    """End one that an unforeseen `error` keeps from going on: it would again at each later look, or has for too long.

    What waited for it is submitted by the usual rule at the next look; where that is what broke, it stays a draft.
    """
    fault = fault_told(_log, error, f"range test {test.pk} of job {test.job_id} breaks off")
    if rate_test_fail(test, {"code": "broken_off", "message": f"The range test broke off: {fault}", "hint": _LOGGED}):
        return
    if RateTest.objects.filter(pk=test.pk, submit=True).update(submit=False):
        job_note(test.job, "person", f"Not submitted: {fault}. {_LOGGED}", actor=test.by)


def _submit_after(test: RateTest, job: Job) -> None:
    settled = False
    try:
        # A draft may have been changed meanwhile: a rate that its person has fixed stays, another program is tested.
        is_open = rate_is_asked(job) or rate_is_automatic(job)
        if is_open and test.state == AskState.DONE and rate_test_is_current(test, job):
            job = _by_test(test, job)
        elif is_open and test.state == AskState.FAILED:
            job, settled = _by_rule(test, job), True
        promised = promise_state(job) != PromiseState.NOT_WANTED
        jobs.job_submit(user=test.by, job=job, promised=promised, rate_settled=settled)
    except HarnessError as error:
        job_note(job, "person", f"Not submitted: {error.message}", actor=test.by)


def _by_test(test: RateTest, job: Job) -> Job:
    job = rate_use(user=test.by, job=job, test=test)
    how = "a range test and trials" if "trials" in rate_names(test) else "a range test"
    told = f"Learning rate {test.used_rate:g} by {how} with steps of {test.batch_size:,} rows"
    if found := rate_found(test):
        told += f"; {found.low:.2g} to {found.high:.2g} are usable"
    found_by = {"learning_rate": test.used_rate, "why": told.partition(" by ")[2]}
    job_note(job, "person", told, actor=test.by, data=found_by)
    return job


def rate_rule_note(job: Job, why: str) -> None:
    """That the rate in the program, by its rule, is the one that the job is submitted with."""
    told = f"by the rule {rule_of(job)}: {changed_words(job)}; {why}"
    job_note(job, "note", f"Learning rate {rate_of(job):g} {told}", data={"learning_rate": rate_of(job), "why": told})


def _by_rule(test: RateTest, job: Job) -> Job:
    """With the rate of the usual rule: of a test that came by itself it stands in the program already."""
    problem = test.problem or {}
    why = (problem.get("message") or "no reason was given").rstrip(".")
    if rate_is_automatic(job):
        told = f"the range test found none ({why})"
        if problem.get("code") == NOT_WORTH:
            told = why.removeprefix("No test: ")
        rate_rule_note(job, told)
        return job
    rule = usual_rule(str((job.resolved.get("spec") or {}).get("training", {}).get("optimizer", "")))
    job = _with_training(test.by, job, rate_rule=rule)
    job_note(job, "person", f"The range test found no learning rate ({why}); the rule {rule} is used", actor=test.by)
    return job

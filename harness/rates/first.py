"""A range test before a job is submitted: made when a device is idle, and then the job goes on with what it found."""

from __future__ import annotations

import logging

from django.db import transaction
from django.utils import timezone

from codegen.catalog.rates import usual_rule
from harness.accounts.models import User
from harness.errors import HarnessError, Unavailable, fault_told
from harness.estimates.models import AskState
from harness.estimates.rate_wishes import rate_is_asked, rate_is_automatic
from harness.jobs.models import Job
from harness.jobs.promises import PromiseState, promise_state
from harness.jobs.states import job_note
from harness.rates.automatic import DECIDES, Way, draft_key, program_read, rate_verdict
from harness.rates.models import RateTest
from harness.rates.selectors import rate_found, rate_names, rate_test_is_current
from harness.rates.sending import rate_test_expire, rate_test_fail, rate_test_send
from harness.rates.services import rate_rule_note, rate_use, rate_want, tests_forget, training_set
from harness.rates.submitting import job_submit
from worker.states import JobState

_log = logging.getLogger(__name__)
_LOGGED = "Ask again; if that fails too, an admin finds the reason there."
NOT_WORTH = "not_worth"
"""Code of an automatic test that would take too long beside the run, as was found when its program had been read."""


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
        tests_forget(job)


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
        job_submit(user=test.by, job=job, promised=promised, rate_settled=settled)
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
    job = training_set(test.by, job, rate_rule=rule)
    job_note(job, "person", f"The range test found no learning rate ({why}); the rule {rule} is used", actor=test.by)
    return job

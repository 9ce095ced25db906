"""Submit a job: with its estimate, where its program was read before, and after a range test, where it wants one."""

from __future__ import annotations

from django.db import transaction

from harness.accounts.models import User
from harness.broker import task_send_on_commit
from harness.estimates.submitting import estimate_before, estimate_foreseen
from harness.jobs.admission import job_admit
from harness.jobs.models import Job
from harness.jobs.promises import PromiseState, promise_told
from harness.jobs.services import draft_queue, draft_read_again, job_moved, submit_check
from harness.rates.before import Foreseen, rate_before, rate_foreseen


def job_submit(*, user: User, job: Job, promised: bool = True, rate_settled: bool = False) -> Job:
    """Queue a draft; one with a deadline gets it promised, or stays a draft; without `promised` it is queued all the
    same, and a deadline that cannot be promised is tried.

    One whose learning rate a range test finds first stays a draft until the test is over, and is queued by itself then;
    not where the rate is `rate_settled`.
    Raises `NotFound`, `Forbidden`, `Conflict` (state, trash, quota), `NoSpace` (storage quota), `TooMany`, `Invalid` (a
    file that does not parse, a model.py without `build`, a spec.yaml with other devices; a deadline that cannot be
    kept: field `budget.deadline`, the earliest finish in `details`).
    """
    submit_check(user=user, job=job)
    # Before the transaction, since pricing a run takes long.
    foreseen = None if rate_settled else rate_foreseen(job)
    foretold = estimate_foreseen(job)
    with transaction.atomic():
        draft_read_again(job)
        estimate_before(job, foretold)
        promise = job_admit(job, promised=promised)
        if not rate_settled and _rate_first(user, job, foreseen, promised=promised):
            return job
        draft_queue(user=user, job=job, promise=promise)
    return job_moved(job)


def _rate_first(user: User, job: Job, foreseen: Foreseen | None, *, promised: bool) -> bool:
    """Whether a range test comes first; then it is on its way."""
    if not rate_before(user=user, job=job, foreseen=foreseen):
        return False
    Job.objects.filter(pk=job.pk).update(promise={} if promised else promise_told(PromiseState.NOT_WANTED))
    task_send_on_commit("control.rate_first", [job.pk, user.pk])
    return True

"""The learning rate on the program tab: start a range test, watch it, use a rate."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect

from harness.accounts.models import Role
from harness.csv import csv_chunks
from harness.errors import Conflict, HarnessError, Invalid
from harness.jobs.copying import edits_given_way
from harness.jobs.models import Job
from harness.jobs.selectors import job_get
from harness.pages.edits_told import edits_told
from harness.pages.rate_view import rates_context
from harness.pages.web import can, page, part_status, person, show
from harness.rates.models import RateTest
from harness.rates.selectors import CURVE_COLUMNS, rate_curve_need, rate_test_get
from harness.rates.sending import rate_test_expire
from harness.rates.services import rate_test_start, rate_use
from harness.responses import chunks_response


def _fragment(
    request: HttpRequest, job: Job, test: RateTest | None, refused: HarnessError | None = None
) -> HttpResponseBase:
    may_change = can(person(request), job.project, Role.MEMBER)
    context = {"job": job, "may_change": may_change, "refused": refused, **rates_context(job, test)}
    return show(request, "jobs/rates.html", context, status=part_status(refused))


@page("POST")
def job_rates_new(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """Start a range test; answers with the fragment that waits for it, or says above the newest why not."""
    user = person(request)
    job = job_get(user=user, job_id=job_id)
    try:
        trials = request.POST.get("trials") or "auto"
        test = rate_test_start(user=user, job=job, kind=request.POST.get("kind", ""), trials=trials)
    except HarnessError as error:
        return _fragment(request, job, None, error)
    return _fragment(request, job, test)


@page("GET", "HEAD")
def job_rates_show(request: HttpRequest, job_id: str, test_id: str) -> HttpResponseBase:
    """The test as it stands, as a fragment."""
    job = job_get(user=person(request), job_id=job_id)
    test = rate_test_get(job=job, test_id=test_id)
    rate_test_expire(test)
    return _fragment(request, job, test)


@page("GET", "HEAD")
def job_rates_csv(request: HttpRequest, job_id: str, test_id: str) -> HttpResponseBase:
    """Loss, score and fits at every rate."""
    job = job_get(user=person(request), job_id=job_id)
    chunks = csv_chunks(CURVE_COLUMNS, rate_curve_need(rate_test_get(job=job, test_id=test_id)))
    return chunks_response(request, chunks, content_type="text/csv; charset=utf-8", filename=f"rates-{test_id}.csv")


@page("POST")
def job_rates_use(request: HttpRequest, job_id: str, test_id: str) -> HttpResponseBase:
    """Put the rate that was chosen into the draft's spec."""
    user = person(request)
    job = job_get(user=user, job_id=job_id)
    test = rate_test_get(job=job, test_id=test_id)
    try:
        job = rate_use(user=user, job=job, test=test, rate=request.POST.get("rate") or "best")
    except (Conflict, Invalid) as error:
        messages.error(request, error.message, extra_tags=error.hint)
    else:
        messages.success(request, f"The spec now has learning_rate: {test.used_rate:g}.")
        edits_told(request, job, edits_given_way(job))
    return redirect("job_tab", job_id=job_id, tab="program")

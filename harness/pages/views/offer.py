"""The cost tab of a job: ask for an offer, watch it come, take a line and submit, try a few real steps."""

from __future__ import annotations

from datetime import datetime

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.dateparse import parse_datetime

from codegen.modes import MODES
from codegen.moments import day_as_its_end
from harness.accounts.models import Role
from harness.csv import csv_chunks
from harness.errors import Conflict, HarnessError, Invalid, NoSpace, NotFound
from harness.estimates.earliest import offer_make_earliest
from harness.estimates.models import OfferRow
from harness.estimates.selectors import (
    OFFER_COLUMNS,
    offer_get,
    offer_is_current,
    offer_of_job,
    offer_priced,
    offer_table,
)
from harness.estimates.services import Asked, offer_accept, offer_make, offer_probe, offer_refresh
from harness.jobs.copying import edits_given_way
from harness.jobs.models import Job
from harness.jobs.options import options_of
from harness.jobs.queueing import options_words
from harness.jobs.selectors import job_get
from harness.jobs.taken import spec_named
from harness.pages.edits_told import edits_told
from harness.pages.offer_view import device_read, offer_context
from harness.pages.web import can, number_read, page, part_status, person, show
from harness.rates.submitting import job_submit
from harness.responses import chunks_response

UNPROMISED = "unpromised"
"""Of the button that submits a job although its deadline cannot be promised."""
_TAKEN = {
    "draft": "Offer accepted. The spec now has these devices; submit the job when you like.",
    "queued": "Offer accepted. The job now waits for {devices}.",
    "paused": "Offer accepted. The job continues with {devices} when you resume it.",
}


def _fragment(request: HttpRequest, job: Job, offer: OfferRow, refused: HarnessError | None = None) -> HttpResponseBase:
    may_change = can(person(request), job.project, Role.MEMBER)
    context = {"job": job, "may_change": may_change, "refused": refused, **offer_context(job, offer)}
    return show(request, "jobs/offer.html", context, status=part_status(refused))


def _offer(request: HttpRequest, job: Job, offer_id: str) -> OfferRow:
    offer = offer_get(user=person(request), offer_id=offer_id)
    if offer.job_id != job.pk:
        raise NotFound("There is no such offer.", hint="Ask for a new one.")
    return offer


@page("POST")
def job_offer_new(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """Ask for an offer; answers with the fragment that shows it, or waits for it.

    With `earliest` its deadline is the earliest finish that can be promised, which the form then holds.
    What is refused is said above the offer that was there before, with its form.
    """
    user = person(request)
    job = job_get(user=user, job_id=job_id)
    try:
        asked = _asked(request, job)
        if request.POST.get("earliest"):
            offer = offer_make_earliest(lambda wish: offer_make(user=user, job=job, asked=wish), asked)
        else:
            offer = offer_make(user=user, job=job, asked=asked, again=bool(request.POST.get("again")))
    except HarnessError as error:
        before = offer_of_job(job)
        if before is None or not offer_is_current(before, job):
            raise
        return _fragment(request, job, before, error)
    return _fragment(request, job, offer)


def _asked(request: HttpRequest, job: Job) -> Asked:
    """What the form fixes; the first time, when there is no form yet, what a person named in the job's spec."""
    given = request.POST
    if "asked" not in given:
        return Asked.wished(spec_named(job.spec, job.taken))
    count = given.get("count", "").strip()
    if count and number_read(count) is None:
        raise Invalid(
            f"{count[:20]!r} is not a number of devices.", field="count", hint="Leave it empty, or give 1 or more."
        )
    kind, model_name = device_read(given.get("kind", ""))
    mode = given.get("mode") or None
    if mode is not None and mode not in MODES:
        raise Invalid(f"{mode[:20]!r} is no mode.", field="mode", hint=f"Choose one of {', '.join(sorted(MODES))}.")
    return Asked.of(
        deadline_at=_deadline(given.get("earliest") or given.get("deadline_utc") or given.get("deadline", "")),
        kind=kind,
        model_name=model_name,
        count=number_read(count),
        mode=mode,
    )


def _deadline(text: str) -> datetime | None:
    if not text.strip():
        return None
    day_end = day_as_its_end(text)
    try:
        found = day_end if isinstance(day_end, datetime) else parse_datetime(text.strip())
    except ValueError:
        found = None
    if found is None:
        raise Invalid("This is not a valid date and time.", field="deadline", hint="Write it like 2030-01-31 18:00.")
    return found


@page("GET", "HEAD")
def job_offer_show(request: HttpRequest, job_id: str, offer_id: str) -> HttpResponseBase:
    """The offer as it stands, as a fragment."""
    job = job_get(user=person(request), job_id=job_id)
    return _fragment(request, job, offer_refresh(_offer(request, job, offer_id)))


@page("GET", "HEAD")
def job_offer_csv(request: HttpRequest, job_id: str, offer_id: str) -> HttpResponseBase:
    """Every line with every figure."""
    job = job_get(user=person(request), job_id=job_id)
    priced = offer_priced(_offer(request, job, offer_id))
    if priced is None:
        raise Conflict("This offer is not priced yet.", hint="Wait for it.")
    chunks = csv_chunks(OFFER_COLUMNS, offer_table(priced))
    return chunks_response(request, chunks, content_type="text/csv; charset=utf-8", filename=f"offer-{offer_id}.csv")


@page("POST")
def job_offer_take(request: HttpRequest, job_id: str, offer_id: str) -> HttpResponseBase:
    """Take the line that was chosen; with `submit` queue the job at once."""
    user = person(request)
    job = job_get(user=user, job_id=job_id)
    here = redirect("job_tab", job_id=job_id, tab="cost")
    try:
        line = number_read(request.POST.get("line", ""))
        offer = _offer(request, job, offer_id)
        elastic, promised = bool(request.POST.get("elastic")), request.POST.get("submit") != UNPROMISED
        seen_at = _seen_at(request, line)
        job = offer_accept(user=user, offer=offer, line=line, seen_at=seen_at, elastic=elastic, promised=promised)
        lost = edits_given_way(job)
        if not request.POST.get("submit") or job.state != "draft":
            messages.success(request, _TAKEN[job.state].format(devices=options_words(options_of(job))))
            edits_told(request, job, lost)
            return here
        job = job_submit(user=user, job=job, promised=promised)
    except (Conflict, Invalid, NoSpace) as error:
        messages.error(request, error.message, extra_tags=error.hint)
        return here
    is_tried = job.deadline_at is not None and job.promised_at is None and not promised
    told = f"Submitted to run on {options_words(options_of(job))}."
    messages.success(request, "Submitted without a promise." if is_tried else told)
    edits_told(request, job, lost)
    return redirect(reverse("job_page", args=[job_id]))


def _seen_at(request: HttpRequest, line: int | None) -> datetime | None:
    """When the offer was priced whose table was looked at. Raises `Invalid` where a line is of nobody knows which."""
    try:
        found = parse_datetime(request.POST.get("made_at", ""))
    except ValueError:
        found = None
    if line is not None and found is None:
        raise Invalid("This does not say which table the line is of.", hint="Look at the offer again, then choose.")
    return found


@page("POST")
def job_offer_probe(request: HttpRequest, job_id: str, offer_id: str) -> HttpResponseBase:
    """Have an idle device make a few real steps of the program."""
    user = person(request)
    job = job_get(user=user, job_id=job_id)
    offer = _offer(request, job, offer_id)
    refused: HarnessError | None = None
    try:
        offer_probe(user=user, offer=offer, kind=request.POST.get("kind", ""))
    except HarnessError as error:
        refused = error
    return _fragment(request, job, offer, refused)

"""Write estimates: ask nodes, make offers, accept them. The verbs other rooms call."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from django.db.models import Max

from harness.accounts.access import require
from harness.accounts.models import Role, User
from harness.errors import Invalid, Unavailable
from harness.estimates.accepting import estimate_fixed, offer_accept
from harness.estimates.inspection import inspection_done, inspection_expire, inspection_request
from harness.estimates.measuring import is_measured_instead, job_measure
from harness.estimates.models import AskState, Inspection, JobEstimate, OfferRow, OfferState, ProbeRow
from harness.estimates.offer_tried import offer_tried
from harness.estimates.offers import (
    OFFERABLE,
    Asked,
    job_key,
    offer_make,
    offer_make_spec,
    offer_make_workload,
)
from harness.estimates.probe_answers import probe_complete, probe_done, probe_expire
from harness.estimates.probes import PREFIX, pool_has_check, probe_request, probe_told, require_no_run
from harness.estimates.renewing import estimates_renew, no_other_job_suffers
from harness.estimates.settling import offer_settle, offers_settle
from harness.jobs import programs
from harness.jobs.models import Job
from harness.jobs.services import minimum_sandbox_level
from scheduler.workload import Workload
from worker.states import JobState

__all__ = [
    "PREFIX",
    "Asked",
    "estimates_renew",
    "inspection_answer",
    "job_estimate",
    "jobs_estimate",
    "measure_answer",
    "offer_accept",
    "offer_make",
    "offer_make_spec",
    "offer_make_workload",
    "offer_probe",
    "offer_refresh",
]


JOBS_AT_ONCE = 20
_STILL_OPEN = (JobState.QUEUED, JobState.PLACED, JobState.RUNNING)
"""On an idle pool a job begins before its program is read; its estimate is kept all the same, to be learnt from."""


def inspection_answer(report: dict[str, Any]) -> None:
    """Take in a node's answer to `node.inspect`, and go on with all that waited for it."""
    inspection = inspection_done(report)
    if inspection is None:
        return
    if is_measured_instead(inspection):
        _probe_instead(inspection)
    offers_settle(inspection)
    _estimate_waiting(inspection)


def _probe_instead(inspection: Inspection) -> None:
    """Try a few real steps of a program that cannot be read without running it, for whoever waits for its offer.

    Where no device is idle, the offer fails and says so; the person may ask for the steps later.
    """
    waiting = OfferRow.objects.filter(inspection=inspection, state=OfferState.WAITING).exclude(job=None)
    for offer in waiting.select_related("job__dataset", "job__project", "owner").order_by("created_at"):
        wish = offer.wish
        with no_other_job_suffers(offer.job_id or ""):
            offer_probe(
                user=offer.owner, offer=offer, kind=wish.get("kind") or "", model_name=wish.get("model_name") or ""
            )
            return


def _estimate_waiting(inspection: Inspection) -> None:
    """Jobs that were submitted without an offer, while their program was read or tried: some have begun by now."""
    for job in Job.objects.filter(
        state__in=_STILL_OPEN, deleted_at=None, estimate=None, dataset_sha256=inspection.dataset_sha256
    ):
        with no_other_job_suffers(job.pk):
            if job_key(job) == inspection.key:
                _estimate_read(job, inspection)


def _estimate_read(job: Job, inspection: Inspection) -> JobEstimate | None:
    """Estimate a job from what a node read off its program, else from a few steps of it."""
    if inspection.workload:
        return estimate_fixed(job, Workload.from_dict(inspection.workload))
    return job_measure(job, inspection) if is_measured_instead(inspection) else None


def job_estimate(job_id: str) -> JobEstimate | None:
    """Estimate a job on the devices its spec fixes; None where its program has to be read first, or cannot be.

    Never raises for what is wrong with the job: without an estimate it runs as well.
    """
    job = Job.objects.select_related("project", "dataset").filter(pk=job_id, state__in=_STILL_OPEN).first()
    if job is None:
        return None
    with no_other_job_suffers(job_id):
        if JobEstimate.objects.filter(job=job, inspection_key=job_key(job)).exists():
            return None
        inspection = inspection_request(
            files=programs.program_of(_paths(job)).files,
            dataset_sha256=job.dataset_sha256 or job.dataset.sha256,
            minimum_sandbox_level=minimum_sandbox_level(job),
        )
        return _estimate_read(job, inspection)
    return None


def jobs_estimate() -> int:
    """Estimate queued jobs that have none: no node may have been up when they came. How many it did.

    Those first whose last turn was longest ago, of these the oldest: what can never be estimated keeps nobody waiting.
    And those whose devices were declared others while they ran, or left for good.
    """
    waiting = Job.objects.filter(state=JobState.QUEUED, deleted_at=None, estimate=None)
    newest = waiting.aggregate(newest=Max("estimate_turn"))["newest"] or 0
    keys = list(waiting.order_by("estimate_turn", "queued_at", "pk").values_list("pk", flat=True)[:JOBS_AT_ONCE])
    Job.objects.filter(pk__in=keys).update(estimate_turn=newest + 1)
    return sum(job_estimate(job_id) is not None for job_id in keys) + estimates_renew(lost_only=True)


def _paths(job: Job) -> Any:
    from django.conf import settings

    return settings.STORE.job(job.pk)


def offer_probe(*, user: User, offer: OfferRow, kind: str = "", model_name: str = "") -> ProbeRow:
    """Have a few real steps made of the offer's program on an idle device; a new offer follows when it is done.

    Without a kind the device is one that the offer is about, as far as one is idle. Raises `NotFound`, `Forbidden`,
    `Invalid`, `Conflict`, `Unavailable`.
    """
    if offer.job is None or offer.inspection is None:
        raise Invalid(
            "Only the program of a job can be tried on a device.", hint="Create a job from the spec; it stays a draft."
        )
    require(user, offer.job.project, Role.MEMBER)
    require_no_run(offer.job)
    ways = offer_tried(offer, offer.job, kind=kind, model_name=model_name)
    for tried in ways if kind or model_name else []:
        pool_has_check(tried.kind, tried.model_name)
    ask = partial(probe_request, user=user, job=offer.job, inspection=offer.inspection)
    *better, last = ways
    for tried in better:
        with suppress(Unavailable):
            return ask(tried=tried)
    return ask(tried=last)


def measure_answer(report: dict[str, Any]) -> None:
    """Take in a node's answer to a probe: of every job with its program the newest offer is priced anew, and so is what
    it takes where that was known before."""
    probe = probe_done(report)
    if probe is None:
        return
    rows = OfferRow.objects.filter(inspection=probe.inspection).exclude(state=OfferState.ACCEPTED).exclude(job=None)
    newest: dict[str, OfferRow] = {}
    for offer in rows.select_related("job__dataset", "job__project", "project").order_by("created_at"):
        newest[offer.job_id or ""] = offer
    for offer in newest.values():
        if offer.job is not None and offer.job.state in OFFERABLE:
            with no_other_job_suffers(offer.job.pk):
                _price_anew(offer, offer.job, probe)
    if probe.state == AskState.DONE:
        estimates_renew(inspection=probe.inspection)
    _estimate_waiting(probe.inspection)


def _price_anew(offer: OfferRow, job: Job, probe: ProbeRow) -> None:
    probe_complete(probe, job)
    if probe.state == AskState.DONE:
        OfferRow.objects.filter(pk=offer.pk).update(state=OfferState.WAITING, problem=None)
        offer.refresh_from_db()
        offer_settle(offer)
    probe_told(probe, job)


def offer_refresh(offer: OfferRow) -> OfferRow:
    """Settle what can be settled by now: for whoever looks at an offer that waits."""
    if offer.inspection is not None:
        inspection_expire(offer.inspection)
        for probe in offer.inspection.probes.filter(state=AskState.WAITING):
            probe_expire(probe)
    return offer_settle(offer)

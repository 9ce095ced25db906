"""Write estimates: ask nodes, make offers, accept them. The verbs other rooms call."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from django.db.models import Max

from harness.accounts.access import require
from harness.accounts.models import Role, User
from harness.broker import task_send_on_commit
from harness.errors import HarnessError, Invalid, Unavailable
from harness.estimates.accepting import estimate_fixed, offer_accept, offer_again
from harness.estimates.groups import kinds_known, most_together, option_known, option_there
from harness.estimates.inspection import inspection_done, inspection_expire, inspection_request
from harness.estimates.measuring import is_measured_instead, job_measure
from harness.estimates.models import AskState, Inspection, JobEstimate, OfferRow, OfferState, ProbeRow
from harness.estimates.offers import (
    OFFERABLE,
    Asked,
    job_key,
    offer_make,
    offer_make_spec,
    offer_make_workload,
    offer_settle,
    offers_settle,
)
from harness.estimates.probe_answers import probe_complete, probe_done, probe_expire
from harness.estimates.probes import PREFIX, probe_request, probe_told, require_no_run
from harness.estimates.selectors import offer_priced
from harness.jobs import programs
from harness.jobs.models import Job
from harness.jobs.options import options_of
from harness.jobs.services import minimum_sandbox_level
from harness.jobs.states import job_note
from scheduler.workload import Workload
from worker.states import JobState

_log = logging.getLogger(__name__)
OFFER_LOST = "The devices of the accepted offer are no longer in the pool, or were redeclared."

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
        try:
            offer_probe(
                user=offer.owner, offer=offer, kind=wish.get("kind") or "", model_name=wish.get("model_name") or ""
            )
        except HarnessError as error:
            _log.info("offer %s: no steps are tried: %s", offer.pk, error.message)
        else:
            return


def _estimate_waiting(inspection: Inspection) -> None:
    """Jobs that were submitted without an offer, while their program was read or tried: some have begun by now."""
    for job in Job.objects.filter(
        state__in=_STILL_OPEN, deleted_at=None, estimate=None, dataset_sha256=inspection.dataset_sha256
    ):
        with _no_other_job_suffers(job.pk):
            if job_key(job) == inspection.key:
                _estimate_read(job, inspection)


@contextmanager
def _no_other_job_suffers(job_id: str) -> Iterator[None]:
    """What is wrong with one job, such as program files that are gone, keeps no other from its estimate."""
    try:
        yield
    except (HarnessError, OSError, ValueError) as error:
        _log.info("job %s cannot be estimated: %s", job_id, error)


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
    with _no_other_job_suffers(job_id):
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


def estimates_renew(*, lost_only: bool = False) -> int:
    """Estimate queued jobs again on the devices as they are declared now; return how many were.

    What a person took from an offer stays as it is: a job whose devices are there no more waits, and gets a new offer.
    `lost_only`: only jobs of whose devices the pool has none any more, drained nodes included.
    """
    known, most = kinds_known(), most_together()
    renewed = 0
    for kept in JobEstimate.objects.filter(job__state=JobState.QUEUED, job__deleted_at=None).select_related("job"):
        options = options_of(kept.job)
        if kept.offer is not None:
            if not any(option_there(option, most) for option in options):
                _offer_lost(kept.job, kept.offer)
            continue
        lost = not any(option_known(option, known) for option in options)
        if lost_only and not lost:
            continue
        found = Inspection.objects.filter(key=kept.inspection_key).exclude(workload=None).first()
        if found is None or not found.workload:
            continue
        with _no_other_job_suffers(kept.job_id):
            renewed += estimate_fixed(kept.job, Workload.from_dict(found.workload)) is not None
    if renewed:
        task_send_on_commit("control.tick")
    return renewed


def _offer_lost(job: Job, offer: OfferRow) -> None:
    """Tell that the devices of the offer that was taken are gone, once, and make a new one to look at."""
    if job.events.filter(message__startswith=OFFER_LOST, data__offer_id=offer.pk).exists():
        return
    try:
        fresh = offer_again(offer.owner, job, offer)
    except HarnessError as error:
        job_note(job, "note", f"{OFFER_LOST} Ask for a new offer. {error.message}", data={"offer_id": offer.pk})
        return
    told = f"{OFFER_LOST} A new offer is on the tab Cost; nothing is replaced without you."
    job_note(job, "note", told, data={"offer_id": offer.pk, "offer": fresh.pk})


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
    ask = partial(probe_request, user=user, job=offer.job, inspection=offer.inspection)
    *better, last = [(kind, model_name)] if kind or model_name else _probe_devices(offer)
    for its_kind, its_model in better:
        with suppress(Unavailable):
            return ask(kind=its_kind, model_name=its_model)
    return ask(kind=last[0], model_name=last[1])


def _probe_devices(offer: OfferRow) -> list[tuple[str, str]]:
    """(kind, model) of devices to try, the best first: what the person fixed, else what is recommended, else any."""
    wish = offer.wish or {}
    if wish.get("kind") or wish.get("model_name"):
        return [(str(wish.get("kind") or ""), str(wish.get("model_name") or ""))]
    priced = offer_priced(offer)
    line = (priced.chosen or priced.likeliest) if priced else None
    if line is None:
        return [("", "")]
    way = line.allocation
    return [*([(way.kind, way.model_name)] if not way.parts else []), (way.kind, ""), ("", "")]


def measure_answer(report: dict[str, Any]) -> None:
    """Take in a node's answer to a probe: of every job with its program the newest offer is priced anew."""
    probe = probe_done(report)
    if probe is None:
        return
    rows = OfferRow.objects.filter(inspection=probe.inspection).exclude(state=OfferState.ACCEPTED).exclude(job=None)
    newest: dict[str, OfferRow] = {}
    for offer in rows.select_related("job__dataset", "job__project", "project").order_by("created_at"):
        newest[offer.job_id or ""] = offer
    for offer in newest.values():
        if offer.job is None or offer.job.state not in OFFERABLE:
            continue
        probe_complete(probe, offer.job)
        if probe.state == AskState.DONE:
            OfferRow.objects.filter(pk=offer.pk).update(state=OfferState.WAITING)
            offer.refresh_from_db()
            offer_settle(offer)
        probe_told(probe, offer.job)
    _estimate_waiting(probe.inspection)


def offer_refresh(offer: OfferRow) -> OfferRow:
    """Settle what can be settled by now: for whoever looks at an offer that waits."""
    if offer.inspection is not None:
        inspection_expire(offer.inspection)
        for probe in offer.inspection.probes.filter(state=AskState.WAITING):
            probe_expire(probe)
    return offer_settle(offer)

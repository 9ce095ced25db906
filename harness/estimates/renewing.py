"""Estimates of jobs that have not started, made again when what they rest on has changed: devices, probe, calibration.

Then a finish that could not be promised is asked for again. What was promised stays so, whatever is known since.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import QuerySet

from codegen.modes import STAGED
from harness.broker import task_send_on_commit
from harness.database import DATABASE_AWAY
from harness.errors import HarnessError
from harness.estimates.accepting import estimate_keep, estimates_fixed, offer_again
from harness.estimates.groups import groups_read, most_together, option_there
from harness.estimates.models import Inspection, JobEstimate, OfferRow
from harness.estimates.offers import OFFERED, job_key
from harness.estimates.openings import Key
from harness.estimates.own_pace import probes_known
from harness.estimates.pricing import estimates_of
from harness.estimates.settling import probed_workload
from harness.jobs.admission import promise_ask_again
from harness.jobs.models import Job
from harness.jobs.options import job_options_set, options_of, wanted_memory_bytes, wanted_model
from harness.jobs.states import job_note
from harness.pool.turn import facts_change
from scheduler.estimation.pipelines import stages_of
from scheduler.estimation.values import Allocation, Estimate
from scheduler.offers.recommend import candidates
from scheduler.offers.values import Wish, allocation_from
from scheduler.workload import Workload
from worker.states import JobState

_log = logging.getLogger(__name__)
NO_WAY_LEFT = (
    "The devices that it was estimated for are no longer in the pool, or were redeclared, and no way to run it on "
    "those that are there can be estimated. It waits for devices as its spec asks for them."
)
OFFER_LOST = "The devices of the accepted offer are no longer in the pool, or were redeclared."
OFFER_AWAY = (
    "Devices of the accepted offer are away: their node does not see them now. The job starts once they are back."
)
_READ = ("job__project", "job__dataset", "offer")
_TRIES = 3
"""A person changes one job now and then, not three times while it is priced."""


@contextmanager
def no_other_job_suffers(job_id: str) -> Iterator[None]:
    """What is wrong with one job, such as program files that are gone, keeps no other from its estimate."""
    try:
        yield
    except (HarnessError, OSError) as error:
        _log.info("job %s cannot be estimated: %s", job_id, error)
    except DATABASE_AWAY:
        raise
    except Exception:
        _log.exception("job %s cannot be estimated", job_id)


def estimates_renew(*, lost_only: bool = False, inspection: Inspection | None = None) -> int:
    """Estimate jobs again that have not started, by what is known of devices and programs now; return how many were.

    What a person took from an offer stays the same ways to run it, with new figures: a job whose devices are gone
    waits, and gets a new offer.
    `lost_only`: only jobs of whose devices the pool has not as many any more, drained nodes and devices that are away
    included.
    `inspection`: only jobs with this program that have never run: a run says more of its job than a probe.
    """
    pool = _Pool(now=most_together(), with_away=most_together(with_away=True))
    states = [JobState.QUEUED] if lost_only else [JobState.QUEUED, JobState.DRAFT]
    rows = JobEstimate.objects.filter(job__state__in=states, job__deleted_at=None)
    rows = rows.filter(inspection_key=inspection.key, job__token=0) if inspection is not None else rows
    renewed = []
    for job_id in list(rows.order_by("job__queued_at", "job_id").values_list("job_id", flat=True)):
        with no_other_job_suffers(job_id):
            if _renew(rows.filter(job=job_id), pool, lost_only=lost_only):
                renewed.append(job_id)
    for job in Job.objects.filter(pk__in=renewed).order_by("queued_at", "pk").select_related("project", "dataset"):
        with no_other_job_suffers(job.pk):
            promise_ask_again(job)
    if renewed:
        task_send_on_commit("control.tick")
    return len(renewed)


class _Pool(NamedTuple):
    """Devices of each kind and name that one job can hold at most."""

    now: dict[Key, int]
    with_away: dict[Key, int]
    """Those counted as well that their nodes do not report now."""


def _renew(rows: QuerySet[JobEstimate], pool: _Pool, *, lost_only: bool) -> bool:
    """Price the one job of `rows` and keep it, once more where a person changed it meanwhile."""
    for _ in range(_TRIES):
        kept = rows.select_related(*_READ).first()
        if kept is None:
            return False
        is_lost = kept.offer is None and not _has_a_way(kept.job, pool.with_away)
        if lost_only and not is_lost:  # as nearly all: no program is read for that
            _offer_watch(kept, pool)
            return False
        before = _basis(kept)
        priced = _priced(kept, pool, is_lost=is_lost)
        if priced is None:
            return False
        if _replaced(rows, before, priced):
            return True
    return False


def _basis(kept: JobEstimate) -> tuple[Any, ...]:
    """What a price is of: who writes one looks whether it still is."""
    job = kept.job
    return job.state, job.spec, job.options, job_key(job), kept.inspection_key, kept.offer_id, kept.estimate, kept.ways


def _replaced(rows: QuerySet[JobEstimate], before: tuple[Any, ...], priced: Sequence[Estimate]) -> bool:
    """Keep what was priced, or take the estimate back where that is nothing; False where the job has started, or
    something else was taken or changed since."""
    with transaction.atomic():
        facts_change()  # nobody starts the job until this ends; nor edits a draft, whose row is held as well
        Job.objects.select_for_update().filter(pk__in=rows.values("job")).first()
        kept = rows.select_related(*_READ).first()
        if kept is None or _basis(kept) != before:
            return False
        if priced:
            estimate_keep(kept.job, priced[0], priced[1:], offer=kept.offer)
        else:
            kept.delete()
            job_options_set(kept.job, (), slowdown=0.0, note=NO_WAY_LEFT)
    return True


def _has_a_way(job: Job, most: dict[Key, int]) -> bool:
    return any(option_there(way, most) for way in options_of(job))


def _offer_watch(kept: JobEstimate, pool: _Pool) -> bool:
    """Whether the devices of the offer that was taken, if one was, are there; tell of the job where they are not."""
    if kept.offer is None or _has_a_way(kept.job, pool.now):
        return True
    if kept.job.state != JobState.DRAFT:
        _offer_lost(kept.job, kept.offer, OFFER_AWAY if _has_a_way(kept.job, pool.with_away) else OFFER_LOST)
    return False


def _priced(kept: JobEstimate, pool: _Pool, *, is_lost: bool) -> Sequence[Estimate] | None:
    """What the ways of a job cost now, the chosen one first; None where nothing is to be renewed, or can be. Nothing
    where it was promised nothing and waits for devices that are gone, and no others tell what it takes on them; a draft
    waits for none."""
    if not _offer_watch(kept, pool):
        return None
    job, is_draft = kept.job, kept.job.state == JobState.DRAFT
    if is_draft and (not job.options or job_key(job) != kept.inspection_key):
        return None  # it was changed since, and has no estimate until somebody asks
    found = Inspection.objects.filter(key=kept.inspection_key).first()
    if found is None:
        return None
    body, only = (found.workload, None) if found.workload else probed_workload(found, _rows(kept), wanted_model(job))
    if not body:
        return None
    workload = Workload.from_dict(body)
    if kept.offer is None:
        waits_in_vain = is_lost and not is_draft and job.promised_at is None
        return estimates_fixed(job, workload, only) or ([] if waits_in_vain else None)
    return _same_ways(kept, kept.offer, workload, found)


def _same_ways(
    kept: JobEstimate, offer: OfferRow, workload: Workload, inspection: Inspection
) -> Sequence[Estimate] | None:
    """Price the ways that were taken anew; None where some cannot be told now, such as while a node is down."""
    job, wish = kept.job, Wish(**offer.wish)
    taken = [allocation_from(body["allocation"]) for body in (kept.estimate, *kept.ways)]
    groups = groups_read(job.project, memory_bytes=wanted_memory_bytes(job), with_reserved=True)
    # Modes that nobody asked for are among the candidates only where they are wished.
    named = {(way.mode, way.stages or wish.stages) for way in taken if way.mode not in OFFERED}
    wishes = [wish, *(replace(wish, mode=mode, stages=stages) for mode, stages in sorted(named))]
    ways = {_named(workload, way.allocation): way for one in wishes for way in candidates(workload, groups, wish=one)}
    names = [_named(workload, allocation) for allocation in taken]
    if not all(name in ways for name in names):
        return None
    chosen = tuple(ways[name] for name in dict.fromkeys(names))
    known = probes_known(inspection, job, rows=_rows(kept))
    priced = estimates_of(workload, chosen, known, even=wish.even)
    now = [ways[name].allocation for name in names]
    if not all(allocation in priced for allocation in now):
        return None
    return [priced[allocation] for allocation in now]


def _rows(kept: JobEstimate) -> int:
    """Of the largest rank of the way that counts first; 0: it is in stages, tried on whatever makes them quickest."""
    way = allocation_from(kept.estimate["allocation"])
    return 0 if way.mode in STAGED else max(way.batch_split)


def _named(workload: Workload, way: Allocation) -> tuple[Any, ...]:
    """What makes it the same way: how its rows are shared out is found anew, by the rule and the speeds of now."""
    return way.kind, way.model_name, way.count, way.mode, way.parts, way.threads, stages_of(workload, way)


def _offer_lost(job: Job, offer: OfferRow, what: str) -> None:
    """Tell that the devices of the offer that was taken are away or gone, once, and make a new one to look at."""
    if job.events.filter(message__startswith=what, data__offer_id=offer.pk).exists():
        return
    try:
        fresh = offer_again(offer.owner, job, offer)
    except HarnessError as error:
        job_note(job, "note", f"{what} For others ask for a new offer. {error.message}", data={"offer_id": offer.pk})
        return
    told = f"{what} A new offer is on the tab Cost; nothing is replaced without you."
    job_note(job, "note", told, data={"offer_id": offer.pk, "offer": fresh.pk})

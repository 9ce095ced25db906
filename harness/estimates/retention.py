"""What nobody waits for any more: questions without an answer end, old offers that belong to no job go, and what was
read off programs that no offer and no job rests on any more."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from harness.errors import HarnessError
from harness.estimates.inspection import inspection_expire
from harness.estimates.models import AskState, Inspection, JobEstimate, OfferRow, ProbeRow
from harness.estimates.offers import OFFERABLE, job_key
from harness.estimates.probe_answers import probe_call_off, probe_expire
from harness.estimates.settling import offers_due_settle, offers_settle
from harness.jobs.models import Job
from worker.states import JobState

_log = logging.getLogger(__name__)

KEEP_OFFERS = timedelta(days=30)
"""Of a job an offer lives as long as the job; one for a spec or a workload is read soon or never."""
KEEP_INSPECTIONS = timedelta(days=30)
"""After its last use a program is read again in seconds, and a row holds all its operators."""


def probes_watch() -> int:
    """End probes that nobody answers, or for which no job waits any more; return how many still go on."""
    for probe in ProbeRow.objects.select_related("inspection").filter(state=AskState.WAITING):
        probe_expire(probe)
        if probe.state == AskState.WAITING and not _is_awaited(probe.inspection):
            probe_call_off(probe)
    return ProbeRow.objects.filter(state=AskState.WAITING).count()


def _is_awaited(inspection: Inspection) -> bool:
    """Whether a job that has not started has an offer for this program, or was submitted and is of it. A draft asks
    for steps by an offer alone."""
    there = Job.objects.filter(state__in=OFFERABLE, deleted_at=None, project__deleted_at=None)
    if there.filter(offers__inspection=inspection).exists():
        return True
    asked = there.exclude(state=JobState.DRAFT).filter(
        Q(dataset_sha256=inspection.dataset_sha256) | Q(dataset_sha256="", dataset__sha256=inspection.dataset_sha256)
    )
    return any(_is_of(job, inspection) for job in asked.select_related("dataset"))


def _is_of(job: Job, inspection: Inspection) -> bool:
    """Whether the program is the job's; not where that cannot be read, such as files that are gone."""
    try:
        return job_key(job) == inspection.key
    except (HarnessError, OSError, ValueError) as error:
        _log.info("the program of job %s cannot be read: %s", job.pk, error)
        return False


def estimates_retention() -> int:
    """Do all of it; return how many offers went. Pages do the first part for what they show, sooner."""
    for inspection in Inspection.objects.filter(state=AskState.WAITING):
        if inspection_expire(inspection):
            offers_settle(inspection)
    offers_due_settle()
    old = OfferRow.objects.filter(job=None, created_at__lt=timezone.now() - KEEP_OFFERS)
    gone = old.delete()[0]
    _inspections_forget()
    return gone


def _inspections_forget() -> None:
    limit = timezone.now() - KEEP_INSPECTIONS
    old = Inspection.objects.filter(sent_at__lt=limit).exclude(state=AskState.WAITING)
    used = OfferRow.objects.filter(inspection=OuterRef("pk"))
    estimated = JobEstimate.objects.filter(inspection_key=OuterRef("key"))
    probed = ProbeRow.objects.filter(inspection=OuterRef("pk"), sent_at__gte=limit)
    old.exclude(Exists(used)).exclude(Exists(estimated)).exclude(Exists(probed)).delete()

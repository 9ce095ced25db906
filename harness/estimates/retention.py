"""What nobody waits for any more: questions without an answer end, old offers that belong to no job go."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from harness.estimates.inspection import inspection_expire
from harness.estimates.models import AskState, Inspection, OfferRow, ProbeRow
from harness.estimates.offers import offers_settle
from harness.estimates.probes import probe_expire

KEEP_OFFERS = timedelta(days=30)
"""Of a job an offer lives as long as the job; one for a spec or a workload is read soon or never."""


def estimates_retention() -> int:
    """Do all of it; return how many offers went. Pages do the first part for what they show, sooner."""
    for inspection in Inspection.objects.filter(state=AskState.WAITING):
        if inspection_expire(inspection):
            offers_settle(inspection)
    for probe in ProbeRow.objects.filter(state=AskState.WAITING):
        probe_expire(probe)
    old = OfferRow.objects.filter(job=None, created_at__lt=timezone.now() - KEEP_OFFERS)
    return old.delete()[0]

"""Settle offers: price them once what they need is known, and let fail what cannot be read or priced."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import Any

from django.utils import timezone

from harness.broker import publish_job
from harness.database import DATABASE_AWAY, passes_by_itself
from harness.errors import HarnessError, fault_told
from harness.estimates.models import AskState, Inspection, OfferRow, OfferState
from harness.estimates.own_pace import probes_known
from harness.estimates.pricing import offer_compute
from harness.estimates.probes import probes_done
from harness.plain import plain
from scheduler.estimation.values import Allocation
from scheduler.offers.values import allocation_from
from scheduler.workload import Workload

NOT_PRICED = "not_priced"
"""Code of the problem of an offer whose pricing failed."""
PASSING_LIMIT = timedelta(minutes=10)
"""So long an offer that could be priced waits for a cause to pass that may."""
_log = logging.getLogger(__name__)


def offer_settle(offer: OfferRow) -> OfferRow:
    """Price an offer if what it needs is known by now; else leave it waiting, or let it fail."""
    if offer.state != OfferState.WAITING:
        return offer
    workload, only = offer.workload, None
    if offer.inspection is not None:
        offer.inspection.refresh_from_db()
        workload = offer.inspection.workload
        if workload is None:
            workload, only = probed_workload(offer.inspection, model_name=offer.wish.get("model_name") or "")
    if workload is not None:
        return _priced(offer, workload, only)
    if offer.inspection is None or offer.inspection.state == AskState.FAILED:
        _keep(offer, state=OfferState.FAILED)
    return offer


def probed_workload(
    inspection: Inspection, rows: int = 0, model_name: str = ""
) -> tuple[dict[str, Any] | None, Allocation | None]:
    """What the run on a device told of a program that cannot be read without running it, and what alone it tells of
    (`scheduler.estimation.alone.tells_of`). `rows` and `model_name`: those wanted, see `probes_done`."""
    done = reversed(probes_done(inspection, rows, model_name))
    probe = next((probe for probe in done if probe.workload is not None), None)
    if probe is None or probe.workload is None:
        return None, None
    return dict(probe.workload), allocation_from(probe.allocation) if probe.opaque else None


def _priced(offer: OfferRow, workload: dict[str, Any], only: Allocation | None) -> OfferRow:
    """The offer, ready or failed: most of what breaks its pricing would break it at each later look as well."""
    begun_at, begun_s = timezone.now(), time.perf_counter()
    try:
        probes = probes_known(offer.inspection, offer.job)
        made, notes = offer_compute(offer, Workload.from_dict(workload), probes=probes, only=only)
        body = plain(made.to_dict())
    except Exception as error:
        if passes_by_itself(error) and not _is_late(offer):  # the next look settles it
            if isinstance(error, DATABASE_AWAY):
                raise
            _log.warning("offer %s cannot be priced for now", offer.pk, exc_info=True)
            return offer
        _keep(offer, state=OfferState.FAILED, problem=_problem(offer, error), body={}, notes=[], made_at=None)
        return offer
    _keep(
        offer, state=OfferState.READY, body=body, notes=notes, problem=None,
        priced_s=time.perf_counter() - begun_s, made_at=begun_at,
    )  # fmt: skip
    return offer


def _is_late(offer: OfferRow) -> bool:
    """Whether it could have been priced for `PASSING_LIMIT`: since all was known that it needs."""
    known = [offer.created_at]
    if offer.inspection is not None:
        probes = offer.inspection.probes.filter(state=AskState.DONE).values_list("finished_at", flat=True)
        known += [moment for moment in (offer.inspection.finished_at, *probes) if moment is not None]
    return abs(timezone.now() - max(known)) > PASSING_LIMIT


def _problem(offer: OfferRow, error: Exception) -> dict[str, str]:
    """What happened and what to do next, in words."""
    if isinstance(error, HarnessError):
        _log.info("offer %s cannot be priced: %s", offer.pk, error)
        return {"code": NOT_PRICED, "message": f"No offer: {error.message}", "hint": error.hint}
    # Whoever looks at an offer prices it: the portal, or control.
    told = fault_told(_log, error, f"offer {offer.pk} cannot be priced", where="the logs of portal and control")
    return {
        "code": NOT_PRICED,
        "message": f"Pricing this offer failed: {told}.",
        "hint": "Ask for it again. If that fails too, an admin finds the reason there.",
    }


def _keep(offer: OfferRow, **fields: Any) -> None:
    """Of two who settle an offer at once the first one counts."""
    if not OfferRow.objects.filter(pk=offer.pk, state=OfferState.WAITING).update(**fields):
        offer.refresh_from_db()
        return
    if offer.job is not None:
        publish_job(offer.job.project_id, offer.job.pk, "offer", {"offer_id": offer.pk, "state": str(fields["state"])})
    for name, value in fields.items():
        setattr(offer, name, value)
    # All but what was just written: bodies are large.
    offer.refresh_from_db(fields=[field.name for field in OfferRow._meta.concrete_fields if field.name not in fields])


def offers_due_settle() -> int:
    """Settle offers that a cause that passed kept from being priced, and at which nobody looks; return how many."""
    waiting = OfferRow.objects.filter(state=OfferState.WAITING).exclude(inspection__state=AskState.WAITING)
    due = waiting.select_related("inspection", "job", "project")
    return sum(offer_settle(offer).state != OfferState.WAITING for offer in due)


def offers_settle(inspection: Inspection) -> int:
    """Settle all offers that waited for an inspection; return how many."""
    waiting = OfferRow.objects.filter(inspection=inspection, state=OfferState.WAITING).select_related("job", "project")
    return sum(offer_settle(offer).state != OfferState.WAITING for offer in waiting)

"""Which pricing of an offer its owner has seen: a number of its table means that one, and no other."""

from __future__ import annotations

from harness.accounts.models import User
from harness.errors import Conflict
from harness.estimates.models import OfferRow
from harness.jobs.models import Job

LIST_MAX = 20


def offer_shown(*, user: User, offer: OfferRow) -> None:
    """Keep that the owner looks at the offer as it is priced now; what others see is not kept."""
    if offer.owner_id == user.pk and offer.made_at is not None and offer.shown_at != offer.made_at:
        OfferRow.objects.filter(pk=offer.pk).update(shown_at=offer.made_at)
        offer.shown_at = offer.made_at


def offers_shown(*, user: User, job: Job) -> list[OfferRow]:
    """Offers of a job that the person has seen priced, the newest first."""
    rows = OfferRow.objects.filter(job=job, owner=user).exclude(shown_at=None)
    return list(rows.order_by("-created_at")[:LIST_MAX])


def shown_check(user: User, offer: OfferRow) -> None:
    """Pass if the lines have the order in which the person saw them. Raises `Conflict`.

    A few steps that somebody tries of the same program price an offer anew, and its lines may change places.
    """
    if offer.owner_id == user.pk and offer.shown_at is not None and offer.shown_at != offer.made_at:
        raise Conflict(
            "This offer has been priced anew since you saw it: its lines may stand in another order.",
            code="offer_stale", hint="Look at it again, then choose.", details={"offer": offer.pk},
        )  # fmt: skip

"""The earliest finish that can be promised as the deadline of an offer, for whoever asks for it by one word."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from django.utils import timezone

from harness.estimates.models import OfferRow
from harness.estimates.offers import Asked
from harness.estimates.selectors import offer_priced
from harness.moments import moment_of
from scheduler.offers.values import Offer

_SOONEST = timedelta(minutes=1)


def earliest_deadline(priced: Offer) -> datetime | None:
    """The earliest finish as people are told it, up to the minute: a field for a moment holds no seconds."""
    told_s = priced.earliest_told_s
    return None if told_s is None else moment_of(60.0 * math.ceil(told_s / 60.0))


def offer_make_earliest(make: Callable[[Asked], OfferRow], asked: Asked) -> OfferRow:
    """An offer whose deadline is the earliest finish that can be promised by now; `make` makes one as it is asked.

    `asked` has the one that was told, where one was. It may have moved since, and only with a deadline the scheduler is
    asked what it would promise, so the offer is made again where another finish is the earliest. Where the program is
    not read yet the first one is returned. Raises what `make` does.
    """
    told_at = asked.deadline_at or timezone.now()
    first_at = max(told_at, timezone.now() + _SOONEST)
    offer = make(replace(asked, deadline_at=first_at, names_deadline=True))
    priced = offer_priced(offer)
    earliest_at = earliest_deadline(priced) if priced else None
    if priced is None or earliest_at is None or (priced.chosen and earliest_at >= first_at):
        return offer
    return make(replace(asked, deadline_at=earliest_at, names_deadline=True))

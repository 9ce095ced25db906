"""The earliest finish that can be promised as the deadline of an offer, for whoever asks for it by one click."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta

from django.utils import timezone

from harness.accounts.models import User
from harness.estimates.models import OfferRow
from harness.estimates.offers import Asked, offer_make
from harness.estimates.selectors import offer_priced
from harness.jobs.models import Job
from harness.moments import moment_of
from scheduler.offers.values import Offer

_SOONEST = timedelta(minutes=1)


def earliest_deadline(priced: Offer) -> datetime | None:
    """The earliest finish as people are told it, up to the minute: a field for a moment holds no seconds."""
    told_s = priced.earliest_told_s
    return None if told_s is None else moment_of(60.0 * math.ceil(told_s / 60.0))


def offer_make_earliest(*, user: User, job: Job, asked: Asked) -> OfferRow:
    """An offer for a draft whose deadline is the earliest finish that can be promised by now.

    `asked` has the one that was told. It may have moved since, and only with a deadline the scheduler is asked what it
    would promise, so the offer is made again where another finish is the earliest. Raises what `offer_make` does.
    """
    told_at = asked.deadline_at or timezone.now()
    first_at = max(told_at, timezone.now() + _SOONEST)
    offer = offer_make(user=user, job=job, asked=replace(asked, deadline_at=first_at, names_deadline=True))
    priced = offer_priced(offer)
    earliest_at = earliest_deadline(priced) if priced else None
    if priced is None or earliest_at is None or (priced.chosen and earliest_at >= first_at):
        return offer
    return offer_make(user=user, job=job, asked=replace(asked, deadline_at=earliest_at, names_deadline=True))

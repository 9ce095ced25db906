"""Reservations by what is wished for, said in keywords."""

from __future__ import annotations

from typing import Any

from harness.accounts.models import User
from harness.jobs import consequences, reservation_preview
from harness.jobs.drain import Affected, RunningThere
from harness.pool import reservations
from harness.pool.models import Reservation
from harness.pool.reservations import ReservationWish


def _wish(wished: dict[str, Any]) -> ReservationWish:
    return ReservationWish(**{"purpose": ""} | wished)


def reservation_create(*, user: User, **wished: Any) -> Reservation:
    """Keep it."""
    return reservations.reservation_create(user=user, wish=_wish(wished))


def reservation_create_told(*, user: User, **wished: Any) -> tuple[Reservation, tuple[Affected, ...]]:
    """Keep it, and tell what that does."""
    return consequences.reservation_create_told(user=user, wish=_wish(wished))


def reservation_consequences(*, user: User, **wished: Any) -> tuple[Affected, ...]:
    """Tell what keeping it would do."""
    return reservation_preview.reservation_consequences(user=user, wish=_wish(wished))


def reservation_outlasting(*, user: User, **wished: Any) -> tuple[RunningThere, ...]:
    """Tell which runs are there still when it begins."""
    return reservation_preview.reservation_outlasting(user=user, wish=_wish(wished))

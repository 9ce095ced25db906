"""Whose turn it is to schedule: of any number of control processes one decides at a time.

Every decision is carried out in a transaction that first locks the row and looks whether its fence is still the one
that was read before the facts were. An admission moves the fence, and so does whoever takes over from a process that
hangs: what was decided on older facts is never carried out, however long a process slept and wherever clocks were set.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from harness.database import DATABASE_AWAY
from harness.lease_renewer import LeaseRenewer
from harness.pool.models import SchedulerTurn

HANGS_AFTER = timedelta(seconds=10)
"""A turn that is not renewed for longer was left by a process that died. Where it only slept, or another host's clock
is so far ahead, the decision is made again and nothing else is lost."""
RENEW_EVERY_S = 2.0
MOST_RENEWALS = 300
"""Ten minutes. Decisions take a fraction of a second: who decides for longer hangs, though its clock still ticks."""
_log = logging.getLogger(__name__)


class TurnLost(Exception):
    """Something that matters has changed since the facts were read: decide again, or leave it to another."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A turn of this process."""

    fence: int
    taken_at: datetime
    """Tells it from every other turn."""


def turn_take() -> Turn | None:
    """Begin a turn; None where another process has it, which then goes once more for us."""
    SchedulerTurn.objects.get_or_create(pk=1)
    now = timezone.now()
    # A moment to come was written before the clock was set back.
    free = Q(busy=False) | Q(taken_at__lt=now - HANGS_AFTER) | Q(taken_at__gt=now + HANGS_AFTER)
    with transaction.atomic():
        rows = SchedulerTurn.objects.filter(pk=1)
        if rows.filter(free).update(busy=True, again=False, number=F("number") + 1, taken_at=now):
            return Turn(fence=rows.get().number, taken_at=now)
        rows.update(again=True)
    return None


def turn_hold(turn: Turn) -> None:
    """Call first in the transaction of a decision: nobody else carries one out until it ends. Raises `TurnLost`."""
    row = SchedulerTurn.objects.select_for_update().filter(pk=1).first()
    if row is None or (row.busy, row.number, row.taken_at) != (True, turn.fence, turn.taken_at):
        raise TurnLost


def turn_renew(turn: Turn) -> Turn:
    """Go on deciding for another `HANGS_AFTER`. Raises `TurnLost` where another has taken over."""
    now = timezone.now()
    if not SchedulerTurn.objects.filter(pk=1, busy=True, taken_at=turn.taken_at).update(taken_at=now):
        raise TurnLost
    return Turn(fence=turn.fence, taken_at=now)


def turn_again(turn: Turn) -> Turn | None:
    """The turn with the fence as it is now, to decide anew; None where another has taken over.

    It counts from now: whoever decides again and again is alive, and nobody may begin beside it.
    """
    now = timezone.now()
    with transaction.atomic():
        if not SchedulerTurn.objects.filter(pk=1, busy=True, taken_at=turn.taken_at).update(again=False, taken_at=now):
            return None
        return Turn(fence=SchedulerTurn.objects.get(pk=1).number, taken_at=now)


def turn_end(turn: Turn) -> bool:
    """End a turn. Returns False, and keeps it, where somebody asked for one meanwhile."""
    mine = SchedulerTurn.objects.filter(pk=1, busy=True, taken_at=turn.taken_at)
    return bool(mine.filter(again=False).update(busy=False)) or not mine.exists()


def turn_drop(turn: Turn) -> None:
    """Give a turn up after an error, so that the next one need not wait for it to look dead."""
    SchedulerTurn.objects.filter(pk=1, busy=True, taken_at=turn.taken_at).update(busy=False)


def facts_change() -> None:
    """Lock the scheduler's row until the transaction ends, and undo what is being decided on the facts before it."""
    SchedulerTurn.objects.get_or_create(pk=1)
    SchedulerTurn.objects.filter(pk=1).update(number=F("number") + 1, again=True)


class TurnKeeper:
    """Renews a turn while its process decides: `with TurnKeeper(turn) as keeper`, then go on with `keeper.turn`.

    A thread does it, so that a decision over a huge queue keeps its turn. That the turn was lost shows when the
    decision is carried out.
    """

    def __init__(self, turn: Turn) -> None:
        """Nothing is renewed before the block is entered."""
        self.turn = turn
        self._renewer = LeaseRenewer(self._renewed, every_s=RENEW_EVERY_S, most=MOST_RENEWALS)

    def __enter__(self) -> TurnKeeper:
        """Begin."""
        self._renewer.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; `turn` moves no more."""
        self._renewer.__exit__(kind, error, trace)

    def _renewed(self) -> bool:
        try:
            self.turn = turn_renew(self.turn)
        except TurnLost:
            return False
        except DATABASE_AWAY as error:
            _log.warning("cannot renew the turn to schedule yet: %s", error)
        return True

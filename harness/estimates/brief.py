"""When steps that are tried before a run give their device back: in seconds, though it is kept for as long as an answer
may take. Reads only."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from statistics import median

from harness.estimates.models import AskState, ProbeRow
from harness.pool.models import Reservation

USUAL_S = 20.0
"""Where none has been made yet."""
LEAST_S = 5.0
"""One that takes longer than usual is expected to be over in so long."""
_LOOKED_AT = 20
"""So many of the last probes tell what is usual."""


def brief_ends(rows: Iterable[Reservation], now: datetime) -> dict[str, datetime]:
    """Id of a reservation -> when its device is expected back, of those of `rows` that are for a probe."""
    ids = {row.pk: row for row in rows}
    waiting = ProbeRow.objects.filter(state=AskState.WAITING, reservation__in=ids) if ids else ProbeRow.objects.none()
    sent = dict(waiting.values_list("reservation", "sent_at"))
    if not sent:
        return {}
    usual, least = timedelta(seconds=_usual_s()), timedelta(seconds=LEAST_S)
    return {pk: min(ids[pk].ends_at, max(sent_at + usual, now + least)) for pk, sent_at in sent.items()}


def _usual_s() -> float:
    done = ProbeRow.objects.filter(state=AskState.DONE).exclude(finished_at=None).order_by("-finished_at")
    spans = done.values_list("sent_at", "finished_at")[:_LOOKED_AT]
    took_s = [(ended - sent).total_seconds() for sent, ended in spans if ended is not None]
    return max(LEAST_S, median(took_s)) if took_s else USUAL_S

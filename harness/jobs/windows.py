"""The time that pages of use look at, and its stretches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from harness.errors import Invalid

SPANS = {"day": timedelta(days=1), "week": timedelta(days=7), "month": timedelta(days=30), "year": timedelta(days=365)}
BUCKETS = {"day": 48, "week": 84, "month": 60, "year": 73}
"""Points of a timeline: half an hour, two hours, half a day, five days each."""
KWH_J = 3.6e6


@dataclass(frozen=True, kw_only=True)
class Window:
    """The time that is looked at, `[since, until)`."""

    since: datetime
    until: datetime
    buckets: int

    @property
    def span_s(self) -> float:
        """Length of all of it."""
        return (self.until - self.since).total_seconds()

    @property
    def bucket_s(self) -> float:
        """Length of one bucket."""
        return self.span_s / self.buckets

    def starts_at(self, number: int) -> datetime:
        """When a bucket begins."""
        return self.since + timedelta(seconds=number * self.bucket_s)


def window_of(span: str, now: datetime | None = None) -> Window:
    """The newest day, week, month or year. Raises `Invalid`."""
    if span not in SPANS:
        raise Invalid(f"There is no span {span!r}.", field="span", hint=f"Use one of: {', '.join(SPANS)}.")
    until = now or timezone.now()
    return Window(since=until - SPANS[span], until=until, buckets=BUCKETS[span])


def basis_of(bases: Mapping[str, float]) -> str:
    """The basis with most joules; empty where there are none."""
    return max(bases, key=lambda name: bases[name]) if any(bases.values()) else ""


def bases_sum(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Joules by basis of all parts together."""
    bases: dict[str, float] = defaultdict(float)
    for part in parts:
        for basis, joules in part.items():
            bases[basis] += joules
    return dict(bases)

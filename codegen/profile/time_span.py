"""When the rows of a column of dates lie. Moments are written as in ISO 8601, with a space, in no zone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TimeGap:
    """A stretch without rows among many, by the moments around it."""

    after: str
    until: str


@dataclass(frozen=True, kw_only=True)
class TimeSpan:
    """First and last moment, and a histogram over time."""

    first: str
    last: str
    unit: str
    """How long a bar of the histogram is: `day`, `month`, `10 years`."""
    starts: tuple[str, ...]
    """Beginning of each bar, of those without rows too."""
    counts: tuple[int, ...]
    gaps: tuple[TimeGap, ...] = ()
    """The longest first."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**vars(self), "gaps": tuple(dict(vars(gap)) for gap in self.gaps)}

    @staticmethod
    def from_dict(body: dict[str, Any]) -> TimeSpan:
        """Inverse of `to_dict`."""
        gaps = tuple(TimeGap(**gap) for gap in body["gaps"])
        return TimeSpan(**{**body, "starts": tuple(body["starts"]), "counts": tuple(body["counts"]), "gaps": gaps})

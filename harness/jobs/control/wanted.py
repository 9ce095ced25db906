"""What is wanted of the width of a running attempt: the value that `JobAttempt.width` keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from harness.jobs.models import JobAttempt


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which ranks an attempt is to have. Absolute: a newer wish replaces an older one, whatever became of that."""

    number: int
    """Counts the wishes of an attempt, from 1: what a node says counts only for the newest."""
    slots: tuple[int, ...]
    """Ranks that are to be there; `Allocation.rank` of the devices that they run on."""
    asked_at: str
    """When, as ISO text."""
    done: bool = False
    """Its node has said that it is so."""
    changes: int = 0
    """How often the attempt has become wider or narrower so far."""
    why: str = "."
    """Why it becomes narrower, as it follows the new number of ranks: `: a core was needed by ....`"""
    first_lost_at: str = ""
    """When the first of its nodes was called lost, as ISO text; empty: it was not. Then the others end as well."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "slots": list(self.slots)}


def wanted_read(body: Mapping[str, Any]) -> Wanted | None:
    """Inverse of `Wanted.to_dict`; None where nothing was ever wanted but what the plan says."""
    return Wanted(**{**body, "slots": tuple(body["slots"])}) if body else None


def width_of(attempt: JobAttempt) -> tuple[int, ...]:
    """Ranks that the attempt has, or is to have soon, by the numbers that they began with."""
    wanted = wanted_read(attempt.width)
    return wanted.slots if wanted else tuple(range(len(attempt.plan.get("ranks", ()))))

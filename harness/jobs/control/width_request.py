"""Which ranks a running attempt was asked to have: the value that `JobAttempt.width` keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from harness.jobs.models import JobAttempt


@dataclass(frozen=True, kw_only=True)
class WidthRequest:
    """Which ranks an attempt is to have. Absolute: a newer request replaces an older one, whatever became of that."""

    number: int
    """Counts the requests of an attempt, from 1: what a node says counts only for the newest."""
    slots: tuple[int, ...]
    """Ranks that are to be there; `Allocation.rank` of the devices that they run on."""
    asked_at: str
    """When, as ISO text."""
    done: bool = False
    """Its node has said that it is so."""
    changes: int = 0
    """How often the attempt has become wider or narrower so far."""
    why: str = "."
    """Why it becomes narrower or wider, as it follows the new number of ranks: `: a core was needed by ....`"""
    first_lost_at: str = ""
    """When the first of its nodes was called lost, as ISO text; empty: it was not. Then the others end as well."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "slots": list(self.slots)}


_NAMES = frozenset(field.name for field in fields(WidthRequest))


def width_request_read(body: Mapping[str, Any]) -> WidthRequest | None:
    """Inverse of `WidthRequest.to_dict`; None where nothing was ever asked for but what the plan says.

    Rows outlive releases: what is not known here is passed over, as in `plan_read`.
    """
    if not body:
        return None
    known = {name: value for name, value in body.items() if name in _NAMES}
    return WidthRequest(**{**known, "slots": tuple(body["slots"])})


def width_of(attempt: JobAttempt) -> tuple[int, ...]:
    """Ranks that the attempt has, or is to have soon, by the numbers that they began with."""
    request = width_request_read(attempt.width)
    return request.slots if request else tuple(range(attempt.run_plan.world_size))

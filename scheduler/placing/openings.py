"""When so many devices of a kind are expected to be free: from what runs and what is planned. Pure.

A gang starts at the first moment from which enough devices stay free for its whole upper run time, so it delays
nobody who is planned before it (as conservative backfill does). Devices are counted per kind, not per node: on a pool
of several nodes a start can be later than said here, because the free ones may lie apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler.job_view import DeviceKey


@dataclass(frozen=True, kw_only=True)
class Holding:
    """Devices of one kind that somebody holds, or is planned to hold, for a while."""

    start_s: float
    finish_s: float
    count: int


def earliest_start_s(held: Iterable[Holding], *, capacity: int, count: int, run_s: float, now_s: float) -> float | None:
    """Unix time from which `count` of `capacity` devices are free for `run_s`; None where there are not so many."""
    if count > capacity:
        return None
    ahead = [item for item in held if item.finish_s > now_s and item.finish_s > item.start_s]
    moments = sorted({now_s, *(item.finish_s for item in ahead)})
    # At the last moment everything has ended, so there is always one.
    return next(moment for moment in moments if _most_used(ahead, moment, moment + run_s) + count <= capacity)


def earliest_together_s(
    held: Mapping[DeviceKey, Iterable[Holding]],
    capacity: Mapping[DeviceKey, int],
    wanted: Mapping[DeviceKey, int],
    *,
    run_s: float,
    now_s: float,
) -> float | None:
    """The same for a gang of several kinds at once; `held` and `capacity` by kind."""
    start_s = now_s
    while True:
        starts = [
            earliest_start_s(held.get(key, ()), capacity=capacity.get(key, 0), count=count, run_s=run_s, now_s=start_s)
            for key, count in wanted.items()
        ]
        found = [start for start in starts if start is not None]
        if len(found) < len(starts):
            return None
        if max(found) <= start_s:
            return start_s
        start_s = max(found)


def _most_used(held: list[Holding], start_s: float, end_s: float) -> int:
    """Most devices in use at once within [start_s, end_s)."""
    changes: list[tuple[float, int]] = []
    for item in held:
        if item.finish_s > start_s and item.start_s < end_s:
            changes += [(max(item.start_s, start_s), item.count), (item.finish_s, -item.count)]
    used = most = 0
    for _, change in sorted(changes):
        used += change
        most = max(most, used)
    return most

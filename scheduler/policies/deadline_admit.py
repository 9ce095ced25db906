"""Which deadlines that are not promised fit, and which of them are promised now; a step of `deadline_energy`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from scheduler.policies.deadline_bars import Bars
from scheduler.policies.deadline_plan import Found
from scheduler.policies.deadline_settings import Settings
from scheduler.policies.deadline_slots import SlotSearch
from scheduler.policies.gang_sites import GangSites
from scheduler.policies.site_slot import Slot
from scheduler.policies.ways import Ways
from scheduler.types import JobView


class Admission:
    """Of one pass; what becomes of it is entered into what it has found."""

    def __init__(
        self, settings: Settings, sites: GangSites, search: SlotSearch, out: Found, ways: Mapping[str, Ways]
    ) -> None:
        """Nobody is let in yet."""
        self._set, self._sites, self._search, self._out, self._ways = settings, sites, search, out, ways

    def left_out(self, dated: Sequence[JobView], bars: Bars, promised: Sequence[float]) -> Iterator[JobView]:
        """Plan them one after the other around what is planned; those that do not fit, as they are found.

        `promised`: the shares of promised jobs.
        """
        small = self._small([*(self._ways[job.job_id].share for job in dated), *promised])
        for job in dated:
            slot = self._search.in_time(job)
            if slot is None:
                yield job
                continue
            self._sites.take(job, slot)
            self._out.slots[job.job_id] = slot
            if bars.allow(job, slot.option) and self._is_promised(job, slot, small):
                self._out.promised.add(job.job_id)

    def _small(self, shares: Sequence[float]) -> float:
        """The largest share that is promised at any load."""
        return sorted(shares)[int(self._set.smallest * (len(shares) - 1))] if shares else 0.0

    def _is_promised(self, job: JobView, slot: Slot, small: float) -> bool:
        return (
            self._set.promise_at_once
            or self._ways[job.job_id].share <= small
            or not self._sites.is_loaded(slot.option, job.deadline_s or math.inf, self._set.light_load)
        )

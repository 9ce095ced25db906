"""Which deadlines that are not promised fit, and which of them are promised now; a step of `deadline_energy`."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence

from scheduler.policies.deadline_bars import Bars, Wanted
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

    def left_out(
        self, dated: Sequence[JobView], in_line: Container[str], bars: Bars, promised: Sequence[float]
    ) -> Iterator[JobView]:
        """Plan them one after the other around what is planned; those that do not fit, as they are found.

        `in_line`: jobs that go by when they have to start; `promised`: the shares of promised jobs. A promise goes
        first from the next decision on. So in a line none is given to who waits behind somebody without one: it would
        have the devices of who has just begun because others can wait.
        """
        small = self._small([*(self._ways[job.job_id].share for job in dated), *promised])
        ahead = Wanted()
        for job in dated:
            slot = self._search.in_time(job)
            if slot is None:
                yield job
                continue
            self._sites.take(job, slot)
            self._out.slots[job.job_id] = slot
            is_in_line = job.job_id in in_line
            waits = is_in_line and slot.start_s > self._sites.now_s and any(map(ahead.meet, job.options))
            if not waits and bars.allow(job, slot.option) and self._is_promised(job, slot, small):
                self._out.promised.add(job.job_id)
            elif is_in_line:
                ahead.add(slot.option)

    def _small(self, shares: Sequence[float]) -> float:
        """The largest share that is promised at any load."""
        return sorted(shares)[int(self._set.smallest * (len(shares) - 1))] if shares else 0.0

    def _is_promised(self, job: JobView, slot: Slot, small: float) -> bool:
        return (
            self._set.promise_at_once
            or self._ways[job.job_id].share <= small
            or not self._sites.is_loaded(slot.option, job.deadline_s or math.inf, self._set.light_load)
        )

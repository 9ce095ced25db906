"""Free devices go where they are used almost as well as the first ones; the last step of `deadline_energy`."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from scheduler.policies.deadline_plan import Found
from scheduler.policies.deadline_settings import Settings
from scheduler.policies.gang_sites import GangSites
from scheduler.policies.site_slot import Slot
from scheduler.policies.ways import Ways
from scheduler.types import JobView, Option

_Wish = tuple[float, str, Option]
"""(less than 0 by how well it uses them, job, the option that needs more devices)."""


class Widening:
    """Of one pass; what becomes of it is entered into what it has found."""

    def __init__(
        self, settings: Settings, sites: GangSites, out: Found, jobs: Iterable[JobView], ways: Mapping[str, Ways]
    ) -> None:
        """Nobody is wider yet."""
        self._set, self._sites, self._out, self._ways = settings, sites, out, ways
        self._jobs = {job.job_id: job for job in jobs}
        self._heap: list[_Wish] = []

    def widen(self) -> None:
        """Free devices where they are used best, until they are used too badly."""
        for job_id in self._out.slots:
            self._offer(self._jobs[job_id])
        while self._heap:
            _, job_id, option = heapq.heappop(self._heap)
            job, slot = self._jobs[job_id], self._out.slots[job_id]
            more = option.count - slot.option.count
            if self._sites.room_to_grow(job, slot, more):
                self._sites.grow(job, slot, more)
                self._out.slots[job_id] = slot._replace(option=option)
                self._offer(job)

    def _offer(self, job: JobView) -> None:
        slot = self._out.slots[job.job_id]
        if slot.start_s > self._sites.now_s or slot.moves or not job.can_pause:
            return
        ways = self._ways[job.job_id]
        found = ways.next_faster(slot.option)
        # What is free now only becomes less.
        if found is None or not self._sites.room_to_grow(job, slot, found[0].count - slot.option.count):
            return
        option, worth = found
        # Shortly before its end a run loses more by the change than it gains.
        if worth >= max(self._set.least_gain, 1e-9) and ways.run_s(option) < ways.run_s(slot.option):
            heapq.heappush(self._heap, (-worth, job.job_id, option))

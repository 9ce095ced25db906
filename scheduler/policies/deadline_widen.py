"""Free devices go where they are used almost as well as the first ones; the last step of `deadline_energy`."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from scheduler.policies.deadline_plan import Found
from scheduler.policies.deadline_settings import Settings
from scheduler.policies.gang_sites import GangSites
from scheduler.policies.site_groups import Parts
from scheduler.policies.site_slot import Slot
from scheduler.policies.ways import Ways, change_s, same
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
        self._least_worth = max(settings.least_gain, 1e-9)

    def widen(self) -> None:
        """Free devices where they are used best, until they are used too badly."""
        now_s, slots = self._sites.now_s, self._out.slots
        startable = [
            (self._jobs[job_id], slot) for job_id, slot in slots.items() if slot.start_s <= now_s and not slot.moves
        ]
        first = (self._wish(job, slot, slot.option) for job, slot in startable if job.can_pause)
        heap = [wish for wish in first if wish]
        heapq.heapify(heap)
        wider: dict[str, Option] = {}
        with_free = {id(slot.site) for _, slot in startable}
        """Sites where something may be left: what is free only becomes less, and most who wish come too late."""
        while heap and with_free:
            _, job_id, option = heapq.heappop(heap)
            job, slot = self._jobs[job_id], slots[job_id]
            more = option.count - wider.get(job_id, slot.option).count
            if self._sites.room_to_grow(job, slot, more, self._worth_s(job, slot.option, option)):
                self._sites.grow(job, slot, more)
                wider[job_id] = option
                wish = self._wish(job, slot, option)
                if wish:
                    heapq.heappush(heap, wish)
            elif slot.site.devices.free_now < 1:
                with_free.discard(id(slot.site))
        for job_id, option in wider.items():
            # `_replace` of a thousand takes a hundredth of a decision.
            slots[job_id] = Slot(option, *slots[job_id][1:-1], _wider(slots[job_id].nodes, option.count))

    def _wish(self, job: JobView, slot: Slot, held: Option) -> _Wish | None:
        """For more than the job has by now."""
        ways = self._ways[job.job_id]
        found = ways.next_faster(held)
        # Shortly before its end a run loses more by the change than it gains. What is free now only becomes less.
        if (
            found is None
            or found[1] < self._least_worth
            or ways.run_s(found[0]) >= ways.run_s(held)
            or not self._sites.room_to_grow(job, slot, found[0].count - held.count)
        ):
            return None
        return (-found[1], job.job_id, found[0])

    def _worth_s(self, job: JobView, option: Option, wider: Option) -> float:
        """How long it has to keep more devices to gain what it loses by the change, if it runs, and the change back; at
        most until its end. What it holds it may keep."""
        if job.running is not None and job.is_running and same(job.running.option, wider):
            return 0.0
        gained = 1.0 - option.rate_per_s / wider.rate_per_s
        lost_s = change_s(option, self._set.rescale)
        if job.is_running:
            lost_s += change_s(wider, self._set.rescale)
        return min(lost_s / gained, self._ways[job.job_id].run_s(wider))


def _wider(nodes: Parts, count: int) -> Parts:
    """It has grown on its one node; on several nobody says where."""
    return ((nodes[0][0], count),) if len(nodes) == 1 else ()

"""What is free goes to projects beyond their quotas; near the end of a pass of `deadline_energy`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.policies.deadline_plan import Found
from scheduler.policies.deadline_slots import SlotSearch
from scheduler.policies.gang_sites import GangSites
from scheduler.policies.ways import Ways
from scheduler.types import JobView


class Lending:
    """Of one pass; what becomes of it is entered into what it has found."""

    def __init__(self, sites: GangSites, search: SlotSearch, out: Found, ways: Mapping[str, Ways]) -> None:
        """Nothing is lent yet."""
        self._sites, self._search, self._out, self._ways = sites, search, out, ways

    def lend(self, jobs: Sequence[JobView]) -> None:
        """Projects get more than their quota of what is free; they give it back when owners come."""
        for job in jobs:
            planned = self._out.slots.get(job.job_id)
            if planned is None or planned.start_s > self._sites.now_s:
                options = self._ways[job.job_id].options or job.options
                # What it holds it may keep, though another way is better.
                held = (job.running.option,) if job.running and job.is_running else ()
                slot = self._search.at_once(job, (*options, *held), borrow=True)
                if slot:
                    self._sites.take(job, slot)
                    self._out.slots[job.job_id] = slot

    def foretell(self, jobs: Sequence[JobView]) -> None:
        """When those start that can only borrow, after all that is planned. Nothing is planned after this."""
        for job in jobs:
            if job.job_id in self._out.slots:
                continue
            options = [
                option for option in self._ways[job.job_id].options if self._sites.quotas.may_borrow(job, option)
            ]
            slot = self._search.soonest(job, options, borrow=True)
            if slot and slot.start_s > self._sites.now_s:
                self._sites.take(job, slot)
                self._out.foretold[job.job_id] = slot

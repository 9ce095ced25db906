"""`edf_widest`: earliest deadline first as the literature replays it, each job as wide as fits.

No admission, no energy, no bound on waiting, and nothing told of jobs that wait: the rival in the simulator alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scheduler.data_way import HERE
from scheduler.policies.gang_sites import GangSites
from scheduler.policies.site_slot import Slot
from scheduler.types import Capacity, JobView, Option, Plan, Quotas

LEAST_LEFT_S = 1.0


class EdfWidest:
    """Jobs in deadline order; each gets its widest option that is free, whether it helps much or not."""

    name = "edf_widest"

    def plan(self, jobs: Sequence[JobView], capacity: Capacity, now_s: float, quotas: Quotas) -> Plan:
        """Jobs without a deadline come last, by submission. Running jobs that can be paused are planned anew."""
        sites = GangSites(capacity, jobs, quotas, now_s)
        slots: dict[str, Slot] = {}
        fixed = {job.job_id: job.running.option for job in jobs if job.running and job.is_running and not job.can_pause}
        queue = sorted((job for job in jobs if job.job_id not in fixed), key=_order)
        for job in jobs:
            if job.job_id in fixed:
                sites.hold(job, now_s + max(LEAST_LEFT_S, job.left_high_s(fixed[job.job_id])))
        for job in queue:
            slot = _widest(sites, job, now_s)
            if slot:
                sites.take(job, slot)
                slots[job.job_id] = slot
        allotments = fixed | {job_id: slot.option for job_id, slot in slots.items()}
        data = {job_id: slot.data for job_id, slot in slots.items() if slot.data.high_s}
        left_s = {job.job_id: job.left_s(allotments[job.job_id]) for job in jobs if job.job_id in allotments}
        return Plan(
            allotments=allotments,
            expected={
                job.job_id: (
                    job.running.started_s if job.running and job.is_running else now_s,
                    now_s + data.get(job.job_id, HERE).mid_s + left_s[job.job_id],
                )
                for job in jobs
                if math.isfinite(left_s.get(job.job_id, math.inf))
            },
            data=data,
            order=tuple(job.job_id for job in queue if job.job_id not in slots),
            hints={job_id: slot.site.hint for job_id, slot in slots.items()},
            reasons={
                job.job_id: "A job with an earlier deadline needs the devices, or more of them are free."
                for job in queue
                if job.is_running
            },
        )


def _order(job: JobView) -> tuple[int, float, float, str]:
    deadline_s = math.inf if job.deadline_s is None else job.deadline_s
    return (-job.priority, deadline_s, job.submitted_s, job.job_id)


def _widest(sites: GangSites, job: JobView, now_s: float) -> Slot | None:
    options: list[Option] = sorted(job.options, key=lambda option: -option.count)
    for option in options:
        if sites.may_start_now(option) and sites.quotas.fit(job, option):
            slot = sites.find(job, option, max(LEAST_LEFT_S, job.left_high_s(option)), now_s)
            if slot:
                return slot
    return None

"""Runs that go on for a while: those that have just begun, where a promise has slack, and those that were promised a
finish and get other devices later."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from scheduler.policies.deadline_plan import Found
from scheduler.policies.deadline_settings import Settings
from scheduler.policies.gang_sites import GangSites
from scheduler.policies.order import is_overdue
from scheduler.policies.ways import Ways, change_s
from scheduler.types import JobView

LEAST_LEFT_S = 1.0


class Stays:
    """Those of one pass; they are entered into what it has found."""

    def __init__(self, settings: Settings, sites: GangSites, out: Found, now_s: float) -> None:
        """None stays yet."""
        self._set, self._sites, self._out, self._now_s = settings, sites, out, now_s

    def begin(self, promised: Sequence[JobView], others: Sequence[JobView], undated: Sequence[JobView]) -> None:
        """Let those of `undated` that have just begun keep their devices for a while; `others`: all without a promise.

        Only what is promised and waits matters here: who outranks them, or is overdue, does so at once.
        """
        coming = [job for job in promised if not job.is_running]
        waiting = [job for job in others if not job.is_running]
        if not coming or any(self._is_overdue(job) for job in waiting):
            return
        least = max(job.priority for job in (*coming, *waiting))
        for job in undated:
            if job.running is None or not job.is_running or job.priority < least or self._is_overdue(job):
                continue
            option = job.running.option
            until_s = job.running.last_change_s + self._set.stay * change_s(option, self._set.rescale)
            if until_s > self._now_s and self._sites.quotas.fit(job, option):
                until_s = min(until_s, self._now_s + max(LEAST_LEFT_S, job.left_high_s(option)))
                self._sites.hold(job, until_s)
                self._out.stays[job.job_id] = until_s

    def go_on(self, job: JobView, ways: Ways) -> None:
        """Plan what is left of such a run after its while: else who comes after it would be told a start on devices
        that it still holds then."""
        until_s = self._out.stays[job.job_id]
        if job.running is None:
            return
        option, done_s = job.running.option, until_s - self._now_s
        left_s = job.left_high_s(option) - done_s
        if left_s <= 0 or math.isinf(left_s):
            return
        slot = self._sites.find(job, option, left_s, math.inf, from_s=until_s)
        if slot and not slot.goes_on:  # it is paused meanwhile, and starts anew
            slot = self._sites.find(job, option, ways.anew_s(option) - done_s, math.inf, from_s=until_s)
        if slot:
            self._sites.take(job, slot)
            self._out.resumes[job.job_id] = slot

    def until_planned(self, promised_runs: Sequence[JobView], others: Iterable[JobView]) -> None:
        """Let promised runs that are planned on other devices for later keep theirs until then, where no deadline that
        can be kept needs these, and none of `others`, which have no promise, outranks them: a pause would cost them a
        start."""
        now_s, quotas = self._now_s, self._sites.quotas
        most = max((job.priority for job in others if not job.is_running), default=-math.inf)
        for job in promised_runs:
            slot, running = self._out.slots.get(job.job_id), job.running
            if running is None or slot is None or slot.start_s <= now_s or job.priority < most:
                continue
            tokens = quotas.binding(job, running.option, borrow=True) if quotas.exist else None
            if self._sites.may_go_on(job, running, slot.start_s - now_s, now_s, tokens, now_s):
                self._sites.hold(job, slot.start_s)
                self._out.holds.add(job.job_id)

    def _is_overdue(self, job: JobView) -> bool:
        return is_overdue(job, self._now_s, self._set.patience_s)

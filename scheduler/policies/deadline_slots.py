"""Which slot a job gets in a pass of `deadline_energy`: one that is in time, the soonest, one that starts at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from scheduler.policies.deadline_settings import Settings
from scheduler.policies.gang_sites import GangSites
from scheduler.policies.site_slot import Slot
from scheduler.policies.ways import Ways, change_s, latest_start_s, same
from scheduler.types import JobView, Option


class SlotSearch:
    """Looks at what is planned so far, and enters nothing."""

    def __init__(self, settings: Settings, sites: GangSites, ways: Mapping[str, Ways], now_s: float) -> None:
        """`ways`: of each job that is asked for."""
        self._set, self._sites, self._ways, self._now_s = settings, sites, ways, now_s

    def in_time(self, job: JobView, *, borrow: bool = False, among: Sequence[Option] | None = None) -> Slot | None:
        """The thriftiest slot that keeps the deadline; `among`: of these options alone."""
        by_s = job.deadline_s or math.inf
        for option, run_s in self._ways[job.job_id].by_energy(self._set.stay, by_s=by_s, now_s=self._now_s):
            if not (borrow or self._sites.quotas.fit(job, option)) or (among is not None and option not in among):
                continue
            slot = self._find(job, option, run_s, by_s, borrow=borrow)
            if slot:
                return slot
        return None

    def as_held(self, job: JobView) -> Slot | None:
        """What it holds, where it keeps the deadline with that."""
        if job.running is None or not job.is_running:
            return None
        option, by_s = job.running.option, job.deadline_s or math.inf
        run_s = self._ways[job.job_id].run_s(option)
        slot = self._sites.find(job, option, run_s, latest_start_s(by_s, run_s), borrow=True, by_s=by_s)
        return slot if slot and slot.goes_on else None

    def soonest(
        self, job: JobView, options: Sequence[Option], *, borrow: bool = False, ends_first: bool = False
    ) -> Slot | None:
        """The slot with the earliest finish."""
        ways = self._ways[job.job_id]
        slots = (
            self._find(job, option, ways.run_s(option), borrow=borrow, ends_first=ends_first)
            for option in options
            if borrow or self._sites.quotas.fit(job, option)
        )
        return min((slot for slot in slots if slot), key=lambda slot: slot.end_s, default=None)

    def first(self, job: JobView) -> Slot | None:
        """No deadline to keep: that of the first option that starts now, else of the one that starts soonest."""
        best: Slot | None = None
        for option in _in_turn(job):
            if not self._sites.quotas.fit(job, option):
                continue
            slot = self._find(job, option, self._ways[job.job_id].run_s(option))
            if slot and (best is None or slot.start_s < best.start_s):
                best = slot
            if best and best.start_s <= self._now_s:
                break
        return best

    def at_once(self, job: JobView, options: Sequence[Option], *, borrow: bool = False) -> Slot | None:
        """Free devices that it starts on. Who can be paused again holds nobody up, so it need not fit to its end, but
        long enough to be worth a start."""
        for option in options:
            if not (self._sites.quotas.may_borrow(job, option) if borrow else self._sites.quotas.fit(job, option)):
                continue
            run_s = self._ways[job.job_id].run_s(option)
            if job.can_pause:
                goes_on = job.running is not None and job.is_running and same(job.running.option, option)
                worth_s = 0.0 if goes_on else self._set.least_stay * change_s(option, self._set.rescale)
                run_s = min(run_s, worth_s)
            slot = self._sites.find(job, option, run_s, self._now_s, borrow=borrow)
            if slot:
                return slot._replace(end_s=math.nextafter(self._now_s, math.inf)) if job.can_pause else slot
        return None

    def _find(
        self,
        job: JobView,
        option: Option,
        run_s: float,
        by_s: float = math.inf,
        *,
        borrow: bool = False,
        ends_first: bool = False,
    ) -> Slot | None:
        """The first slot that ends by `by_s`. Who runs and would go on later, or elsewhere, has to start again, which
        takes longer: else it would be paused for a slot that it does not fit any more, start on what is free, and be
        paused again."""
        find, latest_s = self._sites.find, latest_start_s(by_s, run_s)
        slot = find(job, option, run_s, latest_s, borrow=borrow, by_s=by_s, ends_first=ends_first)
        if slot is None or not job.is_running or (slot.start_s <= self._now_s and not slot.moves):
            return slot
        anew_s = self._ways[job.job_id].anew_s(option)
        if anew_s <= run_s:
            return slot
        latest_s = latest_start_s(by_s, anew_s)
        if latest_s < self._now_s:
            return None
        return find(job, option, anew_s, latest_s, borrow=borrow, by_s=by_s, ends_first=ends_first)


def _in_turn(job: JobView) -> Sequence[Option]:
    """Options in order of preference; who runs stays on its kind of device if it can."""
    if job.running is None or job.running.leaving:
        return job.options
    key = job.running.option.key
    return sorted(job.options, key=lambda option: option.key != key)

"""Planning job by job in a given order, with reservations, backfill, quotas and pauses. Shared by several policies.

Each job in turn: it starts if it fits now without delaying anybody before it; else it makes room by pausing lesser
jobs, where that lets it start at once; else it is promised the earliest start behind everything that is planned. All
by the upper ends of the estimates. Where nobody can tell when devices come free, they are kept for the first who waits.

**Bound.** Let a job j fit the idle pool and the quota of its project, let upper ends hold, and let decisions come at
the start and end of each job and at least every `d` seconds. From `patience_s` after its submission j waits at most

    R + sum of the upper run times left of A + (|A| + 2) d

where A are the unfinished jobs that were submitted no later than j or that an admin put before it, and R is the longest
upper run time left of the jobs that run at that moment. Why: an overdue job that waits closes all places it could use
to later jobs that would run past its promised start (`Ledger.gate`), so these places are empty, or used by A only,
within the bound; and a job of A is paused at most once more, for then it is settled. A job above the quota of its
project has no such claim. `tests/scheduler/policies/test_bounded_waiting.py` holds it against hostile arrivals.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from scheduler.data_way import HERE, Travel
from scheduler.placing.places import LEAST_LEFT_S
from scheduler.placing.spanning_ledger import ledger_of
from scheduler.policies.order import is_overdue, is_settled, kept_places
from scheduler.policies.quotas import QuotaBook
from scheduler.types import Capacity, JobView, Option, Plan, Quotas

MOST_SEARCHES = 8
"""So many searches for jobs to pause per decision: the rest make room in the next one."""


_Way = tuple[Option, float]
"""(an option, the upper time left on it)."""


class Rules(Protocol):
    """What differs between the policies."""

    @property
    def patience_s(self) -> float:
        """See `scheduler.policies.order`."""
        ...

    def key(self, job: JobView) -> Any:
        """Sort key: of one project who has the smallest is served first."""
        ...

    def queue(self, now_s: float) -> Sequence[JobView]:
        """Waiting jobs, in the order they are served."""
        ...

    def victims(self, job: JobView, option: Option, borrowed: set[str]) -> Sequence[JobView]:
        """Running jobs that may be paused for the job, the first to go first."""
        ...

    def standing(self, job: JobView) -> tuple[float, ...]:
        """Of two jobs of a project that want the same devices, who stands no higher may pause nobody whom the other
        may not."""
        ...

    def moved(self, job: JobView, option: Option, sign: int) -> None:
        """A job starts (1) or is paused (-1)."""
        ...


class _Tried(NamedTuple):
    """A search for jobs to pause that found none."""

    standing: tuple[float, ...]
    left_s: float
    memory_bytes: int

    def covers(self, other: _Tried) -> bool:
        """Whether the other one is in vain, too: it may pause no more jobs, for no less."""
        return (
            other.standing <= self.standing and other.left_s >= self.left_s and other.memory_bytes >= self.memory_bytes
        )


@dataclass
class _Outcome:
    allotments: dict[str, Option] = field(default_factory=dict)
    expected: dict[str, tuple[float, float]] = field(default_factory=dict)
    data: dict[str, Travel] = field(default_factory=dict)
    hints: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    room_for: dict[str, str] = field(default_factory=dict)


class Queueing:
    """One pass over the queue."""

    def __init__(self, jobs: Sequence[JobView], capacity: Capacity, now_s: float, quotas: Quotas, rules: Rules) -> None:
        """Enter what runs; all of it goes on unless it is paused."""
        self._now_s = now_s
        self._rules = rules
        self._ledger = ledger_of(capacity, jobs, now_s)
        self._quotas = QuotaBook(jobs, quotas, now_s, rules.key)
        self._out = _Outcome()
        self._hopeless: dict[tuple[object, ...], list[_Tried]] = {}
        """Project and devices -> what could make no room for them."""
        self._searches = 0
        self._in_time: dict[str, tuple[Option, ...]] = {}
        """Waiting job -> the ways that it keeps its deadline by, where it has others, too."""
        self._jobs = {job.job_id: job for job in jobs}
        for job in jobs:
            if job.running and job.is_running:
                self._out.allotments[job.job_id] = job.running.option
                end_s = now_s + job.left_s(job.running.option)
                if math.isfinite(end_s):
                    self._out.expected[job.job_id] = (job.running.started_s, end_s)

    def plan(self) -> Plan:
        """Serve all; those above their quota come last, with what the owners leave."""
        queue = kept_places(self._rules.queue(self._now_s))
        begun = self._start_on_own(queue)
        later = [job for job in queue if job.job_id not in begun and not self._serve(job)]
        waiting = [job for job in later if not self._borrow(job)]
        for job in waiting:
            self._foretell(job)
        out = self._out
        return Plan(
            allotments=out.allotments,
            expected=out.expected,
            data=out.data,
            order=tuple(job.job_id for job in queue),
            hints=out.hints,
            nodes=self._ledger.nodes,
            reasons=out.reasons,
            room_for=out.room_for,
        )

    def _start_on_own(self, queue: Sequence[JobView]) -> set[str]:
        """Start jobs on what is kept for their project, before anybody is promised it for after that: of each project
        the first ones, as far as they fit there. Returns their ids."""
        begun, closed = set(), set[str]()
        for job in queue if self._ledger.keepers_now else ():
            if job.project not in self._ledger.keepers_now or job.project in closed:
                continue
            ways = self._ways(job, is_overdue(job, self._now_s, self._rules.patience_s))
            ends = [(option, self._now_s + max(LEAST_LEFT_S, left_s)) for option, left_s in ways]
            if any(self._start_in_quota(job, option, end_s, own=True) for option, end_s in ends):
                begun.add(job.job_id)
            else:
                closed.add(job.project)
        return begun

    def _serve(self, job: JobView) -> bool:
        """Whether the job is done with; False: it may still start on what its project borrows."""
        overdue = is_overdue(job, self._now_s, self._rules.patience_s)
        ways = self._ways(job, overdue)
        for option, left_s in ways:
            if self._start_in_quota(job, option, self._now_s + max(LEAST_LEFT_S, left_s)):
                return True
        if not ways or self._start_by_pausing(job, ways):
            return True
        if overdue and self._borrow(job):
            return True
        return self._promise(job, ways, overdue)

    def _ways(self, job: JobView, overdue: bool) -> list[_Way]:
        """Its ways to run; of who can keep its deadline none that is too late already: else it began by the first way
        that is free, and ended too late by it."""
        fits = (one for one in job.options if self._ledger.fits_ever(job, one) and self._quotas.fits_ever(job, one))
        ways = [(option, self._left_s(job, option)) for option in fits]
        if job.deadline_s is None or (overdue and not job.promised):
            return ways
        in_time = [way for way in ways if self._now_s + way[1] <= job.deadline_s]
        if len(in_time) == len(ways) or not any(self._start_s(job, *way) + way[1] <= job.deadline_s for way in in_time):
            return ways
        self._in_time[job.job_id] = tuple(option for option, _ in in_time)
        return in_time

    def _start_s(self, job: JobView, option: Option, left_s: float) -> float:
        """When it starts on this option, behind everything that is planned."""
        end_s = self._now_s + max(LEAST_LEFT_S, left_s)
        if self._quotas.fits_now(job, option, end_s) and self._ledger.fits_now(job, option, end_s) is not None:
            return self._now_s
        return max(self._ledger.soonest(job, option)[0], self._quotas.soonest(job, option))

    def _start_in_quota(self, job: JobView, option: Option, end_s: float, *, own: bool = False) -> bool:
        allowed = self._quotas.fits_now(job, option, end_s)
        place = self._ledger.fits_now(job, option, end_s, own=own) if allowed else None
        if place is None:
            return False
        self._quotas.start(job, option, end_s)
        self._start(job, option, place, end_s)
        return True

    def _start_by_pausing(self, job: JobView, ways: Sequence[_Way]) -> bool:
        for option, left_s in ways:
            shape = (job.project, job.minimum_sandbox_level, option.key, option.count, option.parts)
            tried = _Tried(self._rules.standing(job), left_s, option.memory_bytes)
            known = self._hopeless.get(shape, [])
            if self._searches >= MOST_SEARCHES or any(other.covers(tried) for other in known):
                continue
            found = self._victims(job, option)
            if found is None:
                self._hopeless[shape] = [other for other in known if not tried.covers(other)] + [tried]
                continue
            self._hopeless.clear()
            place, names = found
            for name in names:
                self._pause(self._jobs[name], job)
            end_s = self._end_s(job, option)
            self._quotas.start(job, option, end_s)
            self._start(job, option, place, end_s)
            return True
        return False

    def _victims(self, job: JobView, option: Option) -> tuple[int, list[str]] | None:
        candidates = [
            victim.job_id
            for victim in self._rules.victims(job, option, self._quotas.borrowed)
            if victim.job_id in self._out.allotments and not is_settled(victim, self._rules.patience_s)
        ]
        if not candidates:
            return None
        self._searches += 1
        end_s = self._end_s(job, option)

        def enough(gone: Collection[str]) -> bool:
            return self._quotas.fits_now(job, option, end_s, gone)

        return self._ledger.victims(job, option, end_s, candidates, enough)

    def _pause(self, victim: JobView, job: JobView) -> None:
        borrowed = victim.job_id in self._quotas.borrowed and victim.project != job.project
        why = "which is within the quota of its project" if borrowed else "which goes before it"
        self._out.reasons[victim.job_id] = f"It makes room for a job {why}."
        self._out.room_for[victim.job_id] = job.job_id
        option = self._out.allotments.pop(victim.job_id)
        self._out.expected.pop(victim.job_id, None)
        self._ledger.release(victim.job_id)
        self._quotas.release(victim.job_id)
        self._rules.moved(victim, option, -1)

    def _start(self, job: JobView, option: Option, place: int, end_s: float) -> None:
        self._ledger.start(job, option, place, end_s)
        self._rules.moved(job, option, 1)
        self._out.allotments[job.job_id] = option
        self._expect(job, option, self._now_s, place)
        self._out.hints[job.job_id] = self._ledger.name(place)

    def _promise(self, job: JobView, ways: Sequence[_Way], overdue: bool) -> bool:
        """Keep the earliest start for the job. Returns whether that needs devices, and not only a share of a quota."""
        starts = []
        for number, (option, left_s) in enumerate(ways):
            ready_s, place = self._ledger.soonest(job, option)
            quota_s = self._quotas.soonest(job, option)
            start_s = max(ready_s, quota_s)
            starts.append((start_s + left_s, start_s, number, place, quota_s > ready_s))
        by_s = math.inf if job.deadline_s is None or (overdue and not job.promised) else job.deadline_s
        in_time = [start for start in starts if start[0] <= by_s]
        _, start_s, number, place, by_quota = min(in_time or starts, key=itemgetter(1, 2))
        option, left_s = ways[number]
        end_s = start_s + max(LEAST_LEFT_S, left_s)
        self._quotas.reserve(job, option, start_s, end_s)
        if math.isfinite(start_s):
            self._expect(job, option, start_s, place)
        keeps = overdue or (job.promised and not self._quotas.borrows(job, option))
        if by_quota and not (keeps and math.isfinite(start_s)):
            return False
        if place is None or math.isinf(start_s):
            self._ledger.gate(job, option, self._now_s)
            return True
        self._ledger.reserve(job, option, place, start_s, end_s)
        self._out.hints[job.job_id] = self._ledger.name(place)
        for other, _ in ways if overdue else ():
            self._ledger.gate(job, other, start_s)
        return overdue or not by_quota

    def _borrow(self, job: JobView) -> bool:
        """Start above the quota if nobody is delayed by that."""
        for option in self._in_time.get(job.job_id, job.options):
            end_s = self._end_s(job, option)
            if not self._ledger.fits_ever(job, option) or not self._quotas.may_borrow(job, option, end_s):
                continue
            place = self._ledger.fits_now(job, option, end_s)
            if place is not None:
                self._quotas.borrow(job, option)
                self._start(job, option, place, end_s)
                return True
        return False

    def _foretell(self, job: JobView) -> None:
        """When a job starts that can only borrow, after all that is planned. Nothing is planned after this."""
        starts = []
        for number, option in enumerate(job.options):
            if self._ledger.fits_ever(job, option) and self._quotas.borrows(job, option):
                start_s, place = self._ledger.soonest(job, option)
                starts.append((start_s + job.left_s(option), start_s, number, place))
        finish_s, start_s, number, place = min(starts, key=itemgetter(0, 1, 2), default=(math.inf, math.inf, 0, None))
        if job.job_id not in self._out.expected and place is not None and math.isfinite(finish_s):
            option = job.options[number]
            self._ledger.reserve(job, option, place, start_s, start_s + max(LEAST_LEFT_S, self._left_s(job, option)))
            self._expect(job, option, start_s, place)

    def _end_s(self, job: JobView, option: Option) -> float:
        """Upper end of the finish if it starts now."""
        return self._now_s + max(LEAST_LEFT_S, self._left_s(job, option))

    def _left_s(self, job: JobView, option: Option) -> float:
        """Upper end of what it holds devices for, wherever it is put: its data come first."""
        return job.left_high_s(option) + self._ledger.data_most_s(job, option)

    def _expect(self, job: JobView, option: Option, start_s: float, place: int | None) -> None:
        data = self._ledger.travel(job, option, place) if place is not None else HERE
        if job.data is not None:
            self._out.data[job.job_id] = data
        self._out.expected[job.job_id] = (start_s, start_s + data.mid_s + job.left_s(option))

"""Quotas of projects over time, with borrowing.

A quota is a row of tokens, one per device. A job holds as many tokens as devices. A project that holds more devices
than its quota borrows: the jobs it started last are borrowed work, the first to be paused when an owner comes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import groupby, takewhile
from operator import itemgetter
from typing import Any

from scheduler.placing.places import end_of
from scheduler.placing.spans import NOBODY, Row, Span, Want
from scheduler.types import JobView, Option, Quotas, ever_allowed

_ANY = Want()


class _Tokens:
    """Tokens of one project for one kind of device."""

    def __init__(self, limit: int, now_s: float) -> None:
        self.row = Row(now_s)
        if limit:
            self.row.add(Span(limit, now_s))
        self.gate_s = math.inf
        """Nobody of the project may take tokens past this: a job before waits and nobody can tell until when."""
        self.promised: dict[str, float] = {}
        """Waiting jobs of the project, in order -> when they start: what is borrowed must be given back by then."""
        self.overflow: list[Span] = []
        """Devices held above the limit: they take the place of tokens that are given back first."""

    def hold(self, count: int, end_s: float, holder: str) -> bool:
        """A running job holds devices; return whether some of them are borrowed."""
        missing = count - self.row.occupy(count, end_s, holder)
        if missing:
            self.overflow.append(Span(missing, end_s, holder=holder))
        return missing > 0

    def settle(self) -> None:
        """Let tokens stand for the devices that are held longest."""
        held = [span for span in self.row.spans if span.holder] + self.overflow
        for span in [span for span in self.row.spans if span.holder]:
            self.row.release(span.holder)
        self.overflow = []
        for span in sorted(held, key=lambda span: (-span.ready_s, span.holder)):
            self.hold(span.count, span.ready_s, span.holder)

    def usable(self, end_s: float, gone: Collection[str]) -> int:
        if self.gate_s < end_s:
            return 0
        left = sum(span.count for span in self.overflow if span.holder not in gone)
        return max(0, self.row.usable(end_s, _ANY, gone) - left)

    def release(self, holder: str) -> None:
        self.overflow = [span for span in self.overflow if span.holder != holder]
        self.row.release(holder)
        overflow, self.overflow = sorted(self.overflow, key=lambda span: (-span.ready_s, span.holder)), []
        for span in overflow:
            self.hold(span.count, span.ready_s, span.holder)


class QuotaBook:
    """All quotas during one decision."""

    def __init__(
        self, jobs: Sequence[JobView], quotas: Quotas, now_s: float, served_by: Callable[[JobView], Any]
    ) -> None:
        """Enter what runs, the jobs that started first first. `served_by`: sort key of the jobs of one project."""
        self._quotas = quotas
        self._tokens = {
            (project, kind): _Tokens(limit, now_s)
            for project, quota in quotas.items()
            for kind, limit in quota.devices.items()
        }
        self.borrowed: set[str] = set()
        """Running jobs that hold devices above the quota of their project."""
        for job in self._as_started(jobs, served_by) if quotas else ():
            tokens = self._of(job, job.running.option) if job.running else None
            if tokens and job.running and tokens.hold(job.running.option.count, end_of(job, now_s), job.job_id):
                self.borrowed.add(job.job_id)
        for tokens in self._tokens.values():
            tokens.settle()

    def _as_started(self, jobs: Sequence[JobView], served_by: Callable[[JobView], Any]) -> list[JobView]:
        """What runs, in the order in which it started: of one decision those within the quota, as served, before those
        that borrow. By another order who borrows would be one that goes before others, and be paused for them in vain.
        """
        running = [(job.running.started_s, job.running.option, job) for job in jobs if job.running and job.is_running]
        running.sort(key=lambda item: (item[0], served_by(item[2])))
        held: Counter[tuple[str, str]] = Counter()
        found: list[JobView] = []
        for _, together in groupby(running, key=itemgetter(0)):
            above = []
            for _, option, job in together:
                limit = self.limit(job, option)
                if limit is not None and held[job.project, option.kind] + option.count > limit:
                    above.append((option, job))
                else:
                    held[job.project, option.kind] += option.count
                    found.append(job)
            held.update({(job.project, option.kind): option.count for option, job in above})
            found += [job for _, job in above]
        return found

    def fits_ever(self, job: JobView, option: Option) -> bool:
        """Whether the project may hold so many devices, borrowed ones included."""
        return ever_allowed(job.project, option, self._quotas)

    def limit(self, job: JobView, option: Option) -> int | None:
        """Devices of the kind that the job's project may hold without borrowing; None: no limit."""
        quota = self._quotas.get(job.project) if self._quotas else None
        return quota.limit(option.kind) if quota else None

    def borrows(self, job: JobView, option: Option) -> bool:
        """Whether the project may go over its quota."""
        quota = self._quotas.get(job.project)
        return quota is None or quota.borrows(option.kind)

    def fits_now(self, job: JobView, option: Option, end_s: float, gone: Collection[str] = NOBODY) -> bool:
        """Whether the quota allows the job from now to `end_s`, once `gone` have gone."""
        tokens = self._of(job, option)
        return tokens is None or tokens.usable(end_s, gone) >= option.count

    def soonest(self, job: JobView, option: Option) -> float:
        """When the quota allows the job for sure; infinite: nobody can tell, or never; no quota: at any time."""
        tokens = self._of(job, option)
        if tokens is None:
            return -math.inf
        return tokens.row.ready(option.count, _ANY) if math.isinf(tokens.gate_s) else math.inf

    def start(self, job: JobView, option: Option, end_s: float) -> None:
        """The job starts within its quota."""
        tokens = self._of(job, option)
        if tokens:
            tokens.row.start(option.count, end_s, _ANY, job.job_id)

    def borrow(self, job: JobView, option: Option) -> None:
        """The job starts, above its quota where it has one."""
        if self._of(job, option):
            self.borrowed.add(job.job_id)
            self._tokens[job.project, option.kind].promised.pop(job.job_id, None)

    def may_borrow(self, job: JobView, option: Option, end_s: float) -> bool:
        """Whether the job may run to `end_s` above its quota without delaying one of its own project before it."""
        tokens = self._of(job, option)
        if tokens is None:
            return True
        before = takewhile(lambda item: item[0] != job.job_id, tokens.promised.items())
        return self.borrows(job, option) and all(start_s >= end_s for _, start_s in before)

    def reserve(self, job: JobView, option: Option, start_s: float, end_s: float) -> None:
        """The job waits and is promised tokens from `start_s`; infinite: it holds back all later ones."""
        tokens = self._of(job, option)
        if tokens is None:
            return
        limit = self.limit(job, option)
        if limit is not None and option.count > limit:
            tokens.promised[job.job_id] = math.inf
            return
        if math.isinf(start_s) or tokens.row.ready(option.count, _ANY) > start_s:
            tokens.gate_s = tokens.row.now_s
            tokens.promised[job.job_id] = tokens.row.now_s
            return
        tokens.row.reserve(option.count, start_s, end_s, _ANY)
        tokens.promised[job.job_id] = start_s

    def release(self, job_id: str) -> None:
        """A running job is paused."""
        self.borrowed.discard(job_id)
        for tokens in self._tokens.values():
            tokens.release(job_id)

    def _of(self, job: JobView, option: Option) -> _Tokens | None:
        return self._tokens.get((job.project, option.kind))

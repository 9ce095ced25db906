"""Dominant resource fairness between projects: who holds the smallest share of what it is entitled to goes first.

The share of a project is the largest, over the kinds of device, of devices held / devices it is entitled to: its quota,
or all of the pool where it has none (Ghodsi et al., Dominant Resource Fairness, NSDI 2011, with quotas as weights).
Within a project: priority, an admin's order, first come first served; overdue jobs of all projects go first.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler.policies.order import PATIENCE_S, OrderKey, is_overdue, order_key
from scheduler.policies.queueing import Queueing
from scheduler.types import Capacity, JobView, Option, Plan, Quotas


@dataclass(frozen=True, kw_only=True)
class FairShare:
    """Policy `fair_share`."""

    patience_s: float = PATIENCE_S

    @property
    def name(self) -> str:
        """See `Policy`."""
        return "fair_share"

    def plan(self, jobs: Sequence[JobView], capacity: Capacity, now_s: float, quotas: Quotas) -> Plan:
        """See `Policy` and, for the bound on waiting, `scheduler.policies.queueing`."""
        shares = Shares(jobs, capacity, quotas)
        return Queueing(jobs, capacity, now_s, quotas, _Rules(jobs, shares, now_s, self.patience_s)).plan()


_NOTHING: Counter[str] = Counter()


class Shares:
    """What each project holds, against what it is entitled to."""

    def __init__(self, jobs: Sequence[JobView], capacity: Capacity, quotas: Quotas) -> None:
        """Count what runs."""
        self._quotas = quotas
        self._pool: Counter[str] = Counter()
        for (kind, _), count in capacity.total.items():
            self._pool[kind] += count
        self._held: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for job in jobs:
            if job.running and job.is_running:
                self.add(job, job.running.option)

    def copy(self) -> Shares:
        """One that may be changed by itself."""
        other = object.__new__(Shares)
        other._quotas, other._pool = self._quotas, self._pool
        other._held = defaultdict(Counter, {project: held.copy() for project, held in self._held.items()})
        return other

    def add(self, job: JobView, option: Option, sign: int = 1) -> None:
        """The job takes (1) or gives back (-1) its devices."""
        self._held[job.project][option.kind] += sign * option.count

    def of(self, project: str, more: Mapping[str, int] | None = None) -> float:
        """Dominant share of a project, if it held so many `more` devices of some kinds."""
        held = self._held.get(project, _NOTHING)
        if more:
            held = Counter(held)
            held.update(more)
        return max([count / self._entitled(project, kind) for kind, count in held.items() if count > 0], default=0.0)

    def _entitled(self, project: str, kind: str) -> float:
        quota = self._quotas.get(project)
        limit = quota.limit(kind) if quota else None
        # A quota of nothing: all that it holds is borrowed, the share is as good as infinite.
        return max(1e-9, self._pool[kind] if limit is None else limit)


class _Rules:
    """The poorest project first; nobody is paused unless his project holds the larger share, and no smaller one
    afterwards."""

    def __init__(self, jobs: Sequence[JobView], shares: Shares, now_s: float, patience_s: float) -> None:
        self.patience_s = patience_s
        self._jobs = jobs
        self._now_s = now_s
        self._shares = shares
        self._running = [job for job in jobs if job.is_running and job.can_pause]

    def queue(self, now_s: float) -> list[JobView]:
        """Overdue ones, then project by project."""
        waiting = [job for job in self._jobs if not job.is_running]
        overdue = [job for job in waiting if is_overdue(job, now_s, self.patience_s)]
        rest = [job for job in waiting if not is_overdue(job, now_s, self.patience_s)]
        return [*sorted(overdue, key=self.key), *self._in_turns(sorted(rest, key=self.key))]

    def victims(self, job: JobView, option: Option, borrowed: set[str]) -> list[JobView]:
        """What is borrowed first, then of the richest projects what is served last."""
        if not self._running:
            return []
        share = self._shares.of(job.project, {option.kind: option.count})
        given: dict[str, Counter[str]] = defaultdict(Counter)
        """Project -> what it has to give already, less than 0."""
        found: list[tuple[bool, float, int, JobView]] = []
        for victim in sorted(self._running, key=self.key, reverse=True):
            if victim.running is None:
                continue
            less = given[victim.project].copy()
            less[victim.running.option.kind] -= victim.running.option.count
            if not self._is_lesser(victim, job, share, borrowed, less):
                continue
            given[victim.project] = less
            found.append((victim.job_id not in borrowed, -self._shares.of(victim.project), len(found), victim))
        return [victim for *_, victim in sorted(found, key=lambda item: item[:3])]

    def standing(self, job: JobView) -> tuple[float]:
        """Its project stands as one; within it the priority counts."""
        return (job.priority,)

    def moved(self, job: JobView, option: Option, sign: int) -> None:
        """Shares follow."""
        self._shares.add(job, option, sign)
        if sign < 0:
            self._running = [other for other in self._running if other.job_id != job.job_id]

    def _is_lesser(
        self, victim: JobView, job: JobView, share: float, borrowed: set[str], less: Mapping[str, int]
    ) -> bool:
        """Whether it may be paused; `less`: what its project then has given, of all kinds."""
        if victim.project == job.project:
            return victim.priority < job.priority
        if victim.job_id in borrowed:
            return True
        # Where another kind is the largest share of both, neither gets poorer by this one: it would be taken back.
        is_richer = self._shares.of(victim.project) > self._shares.of(job.project)
        return is_richer and self._shares.of(victim.project, less) >= share

    def key(self, job: JobView) -> OrderKey:
        """What jobs of one project are served by."""
        return order_key(job, self._now_s, self.patience_s)

    def _in_turns(self, waiting: Sequence[JobView]) -> Iterator[JobView]:
        """The first job of the poorest project, and so on; each counts as if it got its first choice."""
        shares = self._shares.copy()
        queues: dict[str, list[JobView]] = {}
        for job in reversed(waiting):
            queues.setdefault(job.project, []).append(job)
        turns = [(shares.of(project), self.key(queue[-1]), project) for project, queue in queues.items()]
        heapq.heapify(turns)
        while turns:
            _, _, project = heapq.heappop(turns)
            queue = queues[project]
            job = queue.pop()
            shares.add(job, job.options[0])
            yield job
            if queue:
                heapq.heappush(turns, (shares.of(project), self.key(queue[-1]), project))

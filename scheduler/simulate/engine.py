"""Replay a trace: jobs come, the policy decides, jobs progress. The decisions are those of `scheduler.place`."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.estimation.values import Basis
from scheduler.simulate.pool import Gang, SimPool
from scheduler.simulate.rules import Rules
from scheduler.simulate.stretch import Stretch
from scheduler.types import JobView, Option, Policy, Quotas, Running

_EPSILON_S = 1e-9
"""Times that lie no further apart are the same: 49 s, kept as a rate, are 49.00000000000001 when told as a time."""
_SAME_S = 1e-6
"""The same of deadlines: of a long job each decision beside it adds its own rounding."""


@dataclass(frozen=True, kw_only=True)
class SimJob:
    """One job to replay."""

    job_id: str
    submitted_s: float
    options: tuple[Option, ...]
    """None where the pool is too small for it: it never starts."""
    deadline_s: float | None = None
    project: str = ""
    priority: int = 0
    told: Mapping[Option, Basis] = field(default_factory=dict)
    """Ways whose power the trace tells, and what that rests on; else it goes by the table, and by the model of the
    devices that it gets."""
    barred: bool = False
    """It never starts because of the quota of its project."""


@dataclass(slots=True)
class Outcome:
    """What became of a job."""

    job: SimJob
    started_s: float | None = None
    finished_s: float | None = None
    promised_s: float | None = None
    """When its deadline was promised."""
    refused_s: float | None = None
    """When it left because no width could keep its deadline."""
    device_s: float = 0.0
    """Devices times seconds that it held."""
    energy_j: float = 0.0
    """Of the devices that it held."""
    extra_j: float = 0.0
    """What these would not have drawn idle."""
    extra_by_basis: dict[Basis, float] = field(default_factory=dict)
    changes: int = 0
    """Starts, pauses and changes of width."""

    @property
    def in_time(self) -> bool:
        """Whether it ended by its deadline."""
        deadline_s = self.job.deadline_s
        return self.finished_s is not None and deadline_s is not None and self.finished_s <= deadline_s + _SAME_S


@dataclass(frozen=True, slots=True)
class Sample:
    """The pool from one decision to the next."""

    time_s: float
    busy: int
    """Devices that jobs hold."""
    power_w: float
    """Idle devices included."""
    running: int
    waiting: int


@dataclass(kw_only=True)
class Replay:
    """Everything that happened."""

    policy: str
    devices: int
    idle_w: float
    """Of the whole pool while nothing runs."""
    idle_by_basis: Mapping[Basis, float]
    quotas: Quotas
    outcomes: list[Outcome]
    samples: list[Sample]
    decision_s: list[float]
    """Time that each decision took on this machine."""
    start_s: float
    end_s: float


@dataclass(slots=True)
class _Live:
    """A job that has been submitted and has not left."""

    outcome: Outcome
    left: float = 1.0
    """Share of the run."""
    gang: Gang | None = None
    ready_s: float = 0.0
    """End of the overhead: it progresses from then."""
    finish_s: float = math.inf
    changed_s: float = 0.0

    def told(self, option: Option) -> Basis | None:
        """What the power of a way rests on that the trace tells; most traces tell none."""
        told = self.outcome.job.told
        return told.get(option) if told else None


@dataclass
class Engine:
    """One replay."""

    jobs: Sequence[SimJob]
    pool: SimPool
    policy: Policy
    rules: Rules = field(default_factory=Rules)

    def run(self) -> Replay:
        """From the first submission until everybody has left, or nobody can ever start."""
        waiting = sorted(self.jobs, key=lambda job: (job.submitted_s, job.job_id))
        start_s = now_s = waiting[0].submitted_s if waiting else 0.0
        live: dict[str, _Live] = {}
        replay = Replay(
            policy=self.policy.name,
            devices=self.pool.devices,
            idle_w=self.pool.idle_w,
            idle_by_basis=self.pool.idle_by_basis,
            quotas=self.pool.quotas,
            outcomes=[Outcome(job) for job in waiting],
            samples=[],
            decision_s=[],
            start_s=start_s,
            end_s=start_s,
        )
        stretch, arrived = Stretch(self.rules), 0
        while arrived < len(waiting) or live:
            while arrived < len(waiting) and waiting[arrived].submitted_s <= now_s:
                live[waiting[arrived].job_id] = _Live(replay.outcomes[arrived])
                arrived += 1
            self._refuse(live, now_s)
            stretch.add(now_s)
            self._decide(live, now_s, replay, stretch)
            coming_s = waiting[arrived].submitted_s if arrived < len(waiting) else math.inf
            ending_s = min((job.finish_s for job in live.values() if job.gang), default=math.inf)
            next_s = max(min(coming_s, ending_s), now_s + self.rules.slot_s)
            if math.isinf(next_s):
                break
            self._sample(live, now_s, replay)
            self._progress(live, now_s, next_s)
            now_s = next_s
        replay.end_s = now_s
        return replay

    def _refuse(self, live: dict[str, _Live], now_s: float) -> None:
        """Who can no longer keep a deadline that nobody promised, leaves; so does who fits no pool like this."""
        for job_id, job in list(live.items()):
            outcome, deadline_s = job.outcome, job.outcome.job.deadline_s
            best_s = min((job.left / option.rate_per_s for option in outcome.job.options), default=math.inf)
            late = deadline_s is not None and now_s + best_s > deadline_s + _SAME_S and outcome.promised_s is None
            if math.isinf(best_s) or (self.rules.refuse_late and late):
                outcome.refused_s = now_s
                del live[job_id]

    def _decide(self, live: dict[str, _Live], now_s: float, replay: Replay, stretch: Stretch) -> None:
        views = [self._view(job, now_s, stretch) for job in live.values()]
        begin = time.perf_counter()
        decided = self.pool.decide(views, now_s, self.policy)
        replay.decision_s.append(time.perf_counter() - begin)
        for job_id in decided.promised:
            if live[job_id].outcome.promised_s is None:
                live[job_id].outcome.promised_s = now_s
        for job_id, job in live.items():
            self._apply(job, decided.gangs.get(job_id), now_s, len(replay.decision_s))

    def _apply(self, job: _Live, gang: Gang | None, now_s: float, decision: int) -> None:
        changed = (gang and set(gang.device_ids)) != (job.gang and set(job.gang.device_ids))
        if changed:
            job.outcome.changes += 1
            job.changed_s = now_s
        job.gang = gang
        if gang is None:
            job.finish_s, job.ready_s = math.inf, 0.0
            return
        if job.outcome.started_s is None:
            job.outcome.started_s = now_s
        # Of an overhead that is longer than a slot the rest is still to come.
        begins_s = max(now_s, job.ready_s)
        job.ready_s = begins_s + self.rules.overhead_s(gang.option.count, changed=changed, decision=decision)
        job.finish_s = job.ready_s + job.left / gang.option.rate_per_s

    def _view(self, job: _Live, now_s: float, stretch: Stretch) -> JobView:
        sim = job.outcome.job
        running = None
        if job.gang:
            running = Running(
                option=job.gang.option,
                nodes=job.gang.nodes,
                device_ids=job.gang.device_ids,
                started_s=job.changed_s,
                last_change_s=job.changed_s,
            )
        return JobView(
            job_id=sim.job_id,
            options=sim.options,
            submitted_s=sim.submitted_s,
            project=sim.project,
            priority=sim.priority,
            work_left=min(1.0, max(0.0, job.left)),
            deadline_s=sim.deadline_s,
            promised=job.outcome.promised_s is not None,
            running=running,
            slowdown=stretch.slowdown((sim.deadline_s or math.inf) - now_s),
            can_pause=True,
        )

    def _sample(self, live: dict[str, _Live], now_s: float, replay: Replay) -> None:
        held = [(job, job.gang) for job in live.values() if job.gang]
        extra_w = sum(self._extra_w(job, gang) for job, gang in held)
        busy = sum(gang.option.count for _, gang in held)
        replay.samples.append(Sample(now_s, busy, self.pool.idle_w + extra_w, len(held), len(live) - len(held)))

    def _held_w(self, job: _Live, gang: Gang) -> float:
        return self.pool.held_w(gang, told=job.told(gang.option) is not None)

    def _extra_w(self, job: _Live, gang: Gang) -> float:
        """What the devices of a gang draw above idle."""
        return max(0.0, self._held_w(job, gang) - self.pool.idle_held_w(gang))

    def _progress(self, live: dict[str, _Live], now_s: float, next_s: float) -> None:
        """Devices are held until the next decision, also by a job that ends before it."""
        for job_id, job in list(live.items()):
            if job.gang is None:
                continue
            outcome, gang, option = job.outcome, job.gang, job.gang.option
            outcome.device_s += option.count * (next_s - now_s)
            outcome.energy_j += self._held_w(job, gang) * (next_s - now_s)
            extra_j = self._extra_w(job, gang) * (next_s - now_s)
            outcome.extra_j += extra_j
            basis = self.pool.held_basis(gang, job.told(option))
            outcome.extra_by_basis[basis] = outcome.extra_by_basis.get(basis, 0.0) + extra_j
            if job.finish_s <= next_s + _EPSILON_S:
                outcome.finished_s = job.finish_s
                del live[job_id]
            else:
                job.left -= max(0.0, next_s - job.ready_s) * option.rate_per_s

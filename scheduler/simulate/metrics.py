"""Figures of a replay."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scheduler.estimation.estimate import BASIS_ORDER, worst
from scheduler.estimation.values import Basis
from scheduler.simulate.engine import Outcome, Replay
from scheduler.types import Quota

J_PER_KWH = 3.6e6


@dataclass(frozen=True, kw_only=True)
class Fared:
    """How the jobs of one project, or of all, fared. Times are seconds."""

    project: str
    """Empty: of jobs that name none, or of all."""
    quota: str
    """In words; empty: there is none."""
    jobs: int
    started: int
    finished: int
    with_deadline: int
    satisfaction: float | None
    wait_mean_s: float | None
    """None where none started, as of a finish where none finished: a zero would be a time that nobody waited."""
    wait_p99_s: float | None
    jct_mean_s: float | None
    device_hours: float


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """What is printed of a replay. Times are seconds."""

    policy: str
    devices: int
    jobs: int
    started: int
    finished: int
    refused: int
    """Left because their deadline could not be kept."""
    fit_nowhere: int
    """Left because no way of theirs fits the pool."""
    barred: int
    """Left because the quota of their project never lets them hold what they ask for."""
    with_deadline: int
    satisfaction: float | None
    """Jobs that ended by their deadline / all jobs with one; none where no job has one."""
    promised: int
    promises_broken: int
    """Promised jobs that ended late; none of them lost devices to a job that was not promised."""
    jct_mean_s: float | None
    """Submission to finish, over finished jobs; none where none finished."""
    jct_p50_s: float | None
    jct_p99_s: float | None
    wait_mean_s: float | None
    """Submission to first start, over jobs that started; none where none did."""
    wait_p99_s: float | None
    makespan_s: float
    """First submission to last finish; 0: none finished."""
    utilisation: float
    """Device-seconds held / device-seconds that there were."""
    device_hours: float
    energy_kwh: float
    """Watts, of the trace or a table, times the time that devices are held or idle."""
    energy_per_finished_kwh: float | None
    energy_basis: str
    """The weakest of what the watts rest on."""
    energy_by_basis_kwh: Mapping[str, float]
    changes_per_job: float
    decisions: int
    decision_p50_ms: float
    decision_max_ms: float
    decisions_per_s: float
    projects: Sequence[Fared]
    """By name; none where the trace names no project."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def measure(replay: Replay) -> Metrics:
    """Figures of a replay."""
    outcomes = replay.outcomes
    span_s = replay.end_s - replay.start_s
    everybody, jct = _fared("", outcomes, None), _jct_s(outcomes)
    left = [outcome for outcome in outcomes if outcome.refused_s is not None]
    promised = [outcome for outcome in outcomes if outcome.promised_s is not None]
    energy_j = replay.idle_w * span_s + sum(outcome.extra_j for outcome in outcomes)
    deciding_s = sum(replay.decision_s)
    by_basis = _by_basis_kwh(replay, span_s)
    return Metrics(
        policy=replay.policy,
        devices=replay.devices,
        jobs=len(outcomes),
        started=everybody.started,
        finished=everybody.finished,
        refused=sum(bool(outcome.job.options) for outcome in left),
        fit_nowhere=sum(not outcome.job.options and not outcome.job.barred for outcome in left),
        barred=sum(outcome.job.barred for outcome in left),
        with_deadline=everybody.with_deadline,
        satisfaction=everybody.satisfaction,
        promised=len(promised),
        promises_broken=sum(not outcome.in_time for outcome in promised),
        jct_mean_s=everybody.jct_mean_s,
        jct_p50_s=_quantile(jct, 0.5),
        jct_p99_s=_quantile(jct, 0.99),
        wait_mean_s=everybody.wait_mean_s,
        wait_p99_s=everybody.wait_p99_s,
        makespan_s=max((end_s - replay.start_s for end_s in _ends_s(outcomes)), default=0.0),
        utilisation=3600 * everybody.device_hours / (replay.devices * span_s) if span_s else 0.0,
        device_hours=everybody.device_hours,
        energy_kwh=energy_j / J_PER_KWH,
        energy_per_finished_kwh=energy_j / J_PER_KWH / len(jct) if jct else None,
        energy_basis=str(worst(*(by_basis or replay.idle_by_basis))),
        energy_by_basis_kwh={str(basis): kwh for basis, kwh in by_basis.items()},
        changes_per_job=_mean([float(outcome.changes) for outcome in outcomes]) or 0.0,
        decisions=len(replay.decision_s),
        decision_p50_ms=(_quantile(replay.decision_s, 0.5) or 0.0) * 1000,
        decision_max_ms=max(replay.decision_s, default=0.0) * 1000,
        decisions_per_s=len(replay.decision_s) / deciding_s if deciding_s else 0.0,
        projects=_projects(replay),
    )


def _by_basis_kwh(replay: Replay, span_s: float) -> dict[Basis, float]:
    """Idle devices, and what jobs draw above that, by what the watts rest on."""
    found: dict[Basis, float] = defaultdict(float)
    for basis, idle_w in replay.idle_by_basis.items():
        found[basis] += idle_w * span_s / J_PER_KWH
    for outcome in replay.outcomes:
        for basis, extra_j in outcome.extra_by_basis.items():
            found[basis] += extra_j / J_PER_KWH
    return {basis: found[basis] for basis in BASIS_ORDER if found[basis] > 0}


def _projects(replay: Replay) -> list[Fared]:
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in replay.outcomes:
        outcomes[outcome.job.project].append(outcome)
    if not any(outcomes):
        return []
    return [_fared(project, outcomes[project], replay.quotas.get(project)) for project in sorted(outcomes)]


def _fared(project: str, outcomes: Sequence[Outcome], quota: Quota | None) -> Fared:
    dated = [outcome for outcome in outcomes if outcome.job.deadline_s is not None]
    jct, waits = _jct_s(outcomes), _waits_s(outcomes)
    return Fared(
        project=project,
        quota=_quota_words(quota) if quota else "",
        jobs=len(outcomes),
        started=len(waits),
        finished=len(jct),
        with_deadline=len(dated),
        satisfaction=sum(outcome.in_time for outcome in dated) / len(dated) if dated else None,
        wait_mean_s=_mean(waits),
        wait_p99_s=_quantile(waits, 0.99),
        jct_mean_s=_mean(jct),
        device_hours=sum(outcome.device_s for outcome in outcomes) / 3600,
    )


def _quota_words(quota: Quota) -> str:
    """`4 cuda`, or with what is never exceeded `4 cuda without borrowing`."""
    limits = (
        f"{devices} {kind}{'' if quota.borrows(kind) else ' without borrowing'}"
        for kind, devices in quota.devices.items()
    )
    return ", ".join(limits)


def _ends_s(outcomes: Sequence[Outcome]) -> list[float]:
    return [outcome.finished_s for outcome in outcomes if outcome.finished_s is not None]


def _jct_s(outcomes: Sequence[Outcome]) -> list[float]:
    return [outcome.finished_s - outcome.job.submitted_s for outcome in outcomes if outcome.finished_s is not None]


def _waits_s(outcomes: Sequence[Outcome]) -> list[float]:
    return [outcome.started_s - outcome.job.submitted_s for outcome in outcomes if outcome.started_s is not None]


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _quantile(values: Sequence[float], q: float) -> float | None:
    return float(np.quantile(values, q)) if values else None

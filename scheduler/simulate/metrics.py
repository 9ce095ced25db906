"""Figures of a replay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scheduler.simulate.engine import Replay

J_PER_KWH = 3.6e6


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
    with_deadline: int
    satisfaction: float | None
    """Jobs that ended by their deadline / all jobs with one; none where no job has one."""
    promised: int
    promises_broken: int
    """Promised jobs that ended late; none of them lost devices to a job that was not promised."""
    jct_mean_s: float
    """Submission to finish, over finished jobs."""
    jct_p50_s: float
    jct_p99_s: float
    wait_mean_s: float
    """Submission to first start, over jobs that started."""
    wait_p99_s: float
    makespan_s: float
    utilisation: float
    """Device-seconds held / device-seconds that there were."""
    device_hours: float
    energy_kwh: float
    """Modelled: the power table times the time that devices are held or idle."""
    energy_per_finished_kwh: float | None
    changes_per_job: float
    decisions: int
    decision_p50_ms: float
    decision_max_ms: float
    decisions_per_s: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def measure(replay: Replay) -> Metrics:
    """Figures of a replay."""
    outcomes = replay.outcomes
    span_s = replay.end_s - replay.start_s
    ended = [outcome for outcome in outcomes if outcome.finished_s is not None]
    dated = [outcome for outcome in outcomes if outcome.job.deadline_s is not None]
    promised = [outcome for outcome in outcomes if outcome.promised_s is not None]
    jct = [(outcome.finished_s or 0.0) - outcome.job.submitted_s for outcome in ended]
    waits = [outcome.started_s - outcome.job.submitted_s for outcome in outcomes if outcome.started_s is not None]
    device_s = sum(outcome.device_s for outcome in outcomes)
    energy_j = replay.idle_w * span_s + sum(outcome.extra_j for outcome in outcomes)
    deciding_s = sum(replay.decision_s)
    return Metrics(
        policy=replay.policy,
        devices=replay.devices,
        jobs=len(outcomes),
        started=len(waits),
        finished=len(ended),
        refused=sum(outcome.refused_s is not None for outcome in outcomes),
        with_deadline=len(dated),
        satisfaction=sum(outcome.in_time for outcome in dated) / len(dated) if dated else None,
        promised=len(promised),
        promises_broken=sum(not outcome.in_time for outcome in promised),
        jct_mean_s=_mean(jct),
        jct_p50_s=_quantile(jct, 0.5),
        jct_p99_s=_quantile(jct, 0.99),
        wait_mean_s=_mean(waits),
        wait_p99_s=_quantile(waits, 0.99),
        makespan_s=span_s,
        utilisation=device_s / (replay.devices * span_s) if span_s else 0.0,
        device_hours=device_s / 3600,
        energy_kwh=energy_j / J_PER_KWH,
        energy_per_finished_kwh=energy_j / J_PER_KWH / len(ended) if ended else None,
        changes_per_job=_mean([float(outcome.changes) for outcome in outcomes]),
        decisions=len(replay.decision_s),
        decision_p50_ms=_quantile(replay.decision_s, 0.5) * 1000,
        decision_max_ms=max(replay.decision_s, default=0.0) * 1000,
        decisions_per_s=len(replay.decision_s) / deciding_s if deciding_s else 0.0,
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def _quantile(values: Sequence[float], q: float) -> float:
    return float(np.quantile(values, q)) if values else 0.0

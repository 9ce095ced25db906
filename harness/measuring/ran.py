"""What an attempt of a job ran on, what was foretold of that, and what it can teach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from codegen.modes import STAGED
from harness.estimates.forecasts import forecast_of, is_of_its_program
from harness.estimates.models import JobEstimate
from harness.estimates.own_pace import allocation_ran
from harness.estimates.tried import batch_size
from harness.estimates.workloads import workload_of
from harness.jobs.models import DeviceUse, Job, JobAttempt
from harness.pool.models import DeviceKind
from scheduler.kinds import declared_name
from worker.shares import even


def ran_on(job: Job, attempt: JobAttempt, *, ranks: int = 0) -> dict[str, Any]:
    """`kind`, `model_name`, `count`, `mode`, `predicted`, `workload` and `allocation`, as in `FinishedJobRow`.

    `ranks`: that it had for a while, where they changed; else such an attempt teaches nothing, nor is it compared.
    """
    uses = list(DeviceUse.objects.filter(job=job, token=attempt.number))
    on_gpu = any(rank.device.startswith(DeviceKind.CUDA) for rank in attempt.run_plan.ranks[:1])
    kind = uses[0].device_kind if uses else (DeviceKind.CUDA if on_gpu else DeviceKind.CPU).value
    model_name = uses[0].device_model if uses else ""
    count = ranks or (attempt.world_size if attempt.width else len(uses) or attempt.world_size)
    mode = attempt.run_plan.mode
    priced_as = _priced_as(attempt, model_name)
    is_known = bool(ranks) or not attempt.width
    began_at = attempt.created_at
    told = forecast_of(job, kind=kind, model_name=priced_as, count=count, mode=mode, began_at=began_at)
    predicted = told if is_known else {}
    # Devices that were declared slower than they are, or of several models, say nothing of one model.
    teaches = priced_as == model_name and is_known and _is_read(job)
    return {
        "kind": kind,
        "model_name": model_name,
        "count": count,
        "mode": mode,
        "predicted": predicted,
        "workload": workload_of(job) if teaches else {},
        "allocation": predicted.get("allocation") or _allocation(job, attempt, uses, ranks),
    }


def _is_read(job: Job) -> bool:
    """Whether what is known of its program is of the one that ran."""
    row = JobEstimate.objects.filter(job=job).first()
    return row is not None and is_of_its_program(row)


def _allocation(job: Job, attempt: JobAttempt, uses: Sequence[DeviceUse], ranks: int) -> dict[str, Any]:
    """Of a way that nobody estimated; empty where it cannot be told: how its rows or stages were cut."""
    plan = attempt.run_plan
    if not uses or not plan.ranks or plan.mode in STAGED or plan.split is not None:
        return {}
    way = allocation_ran(job, attempt, uses)
    if ranks:
        way = replace(way, count=ranks, batch_split=even(batch_size(job), ranks))
    return asdict(way)


def _priced_as(attempt: JobAttempt, model_name: str) -> str:
    """What its devices are called in estimates: a declared slowdown, or a mixture of models, is part of it."""
    told = attempt.option.get("model_name")
    if told:
        return str(told)
    factors = [rank.slowdown for rank in attempt.run_plan.ranks]
    return declared_name(model_name, max(factors, default=1.0))

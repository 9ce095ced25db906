"""One replay from a trace file to its figures: what `dlh simulate` and the benchmark share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from scheduler.policies import policy_of
from scheduler.policies.deadline_energy import DeadlineEnergy
from scheduler.policies.ways import Rescale
from scheduler.simulate.engine import Engine, Replay, SimJob
from scheduler.simulate.pool import SimPool
from scheduler.simulate.rules import SLOT_S, Rules
from scheduler.simulate.tables import Tables, as_it_ran, options_of
from scheduler.simulate.told import told_options
from scheduler.simulate.traces import TraceJob, read_trace
from scheduler.types import Policy


def sim_jobs(
    trace: Sequence[TraceJob], tables: Tables | None, pool: SimPool, *, estimator: bool = False
) -> list[SimJob]:
    """The jobs of a trace with their ways to run on this pool. Raises `TraceError`.

    With `estimator` a job may also run as the estimator told, where the trace says what that was.
    """
    powers = {kind: pool.power(kind) for kind in {job.kind for job in trace}}
    jobs = []
    for job in trace:
        power = powers[job.kind]
        if estimator and job.ways:
            options = told_options(as_it_ran(job, power), job.ways, pool)
        else:
            options = options_of(job, tables, pool.most(job.kind), power)
        jobs.append(
            SimJob(
                job_id=job.job_id,
                submitted_s=job.submitted_s,
                options=options,
                deadline_s=job.deadline_s,
                project=job.project,
                priority=job.priority,
                power_told=bool(job.power_w),
            )
        )
    return jobs


def misfits(trace: Sequence[TraceJob], jobs: Sequence[SimJob], pool: SimPool) -> list[str]:
    """In sentences: which jobs of a trace can never run on this pool, and why."""
    lost = [job for job, sim in zip(trace, jobs, strict=True) if not sim.options]
    kinds = Counter(job.kind for job in lost if not pool.most(job.kind))
    said = [
        f"{count:,} of {len(trace):,} jobs ask for devices of the kind {kind}, of which the pool has none"
        for kind, count in sorted(kinds.items())
    ]
    wide = len(lost) - kinds.total()
    return [*said, f"{wide:,} of {len(trace):,} jobs are too large for the pool"] if wide else said


def one_speed(jobs: Sequence[SimJob], pool: SimPool) -> list[str]:
    """In sentences: of which unlike devices a replay takes for granted that jobs run on them alike."""
    open_kinds = {option.kind for job in jobs for option in job.options if not option.model_name}
    models = {kind: sorted({part.model for part in pool.parts if part.kind == kind}) for kind in sorted(open_kinds)}
    return [
        f"{' and '.join(names)} are taken to be equally fast: tables and history have one speed of a job, and no model "
        "of device"
        for names in models.values()
        if len(names) > 1
    ]


def rules_for(pool: SimPool, *, slot_s: float, overheads: bool, rescale_s: float | None) -> Rules:
    """How time passes; see `simulate`. Raises `ValueError`."""
    rules = Rules.published(pool.devices, slot_s=slot_s) if overheads else Rules(slot_s=slot_s)
    return rules if rescale_s is None else replace(rules, change_s=rescale_s)


def policy_for(name: str, rules: Rules) -> Policy:
    """A policy by name that knows what a change costs under these rules. Raises `ValueError`."""
    policy = policy_of(name)
    if isinstance(policy, DeadlineEnergy):
        return replace(policy, rescale=Rescale(fixed_s=rules.event_s, per_doubling_s=rules.change_s))
    return policy


def refuses(policy: Policy) -> bool:
    """Whether a job leaves when the policy can no longer keep its deadline: those that admit do."""
    return isinstance(policy, DeadlineEnergy)


def simulate(
    trace: Path | Sequence[TraceJob],
    pool: SimPool,
    policy: str | Policy,
    *,
    tables: Tables | None = None,
    slot_s: float = SLOT_S,
    overheads: bool = True,
    rescale_s: float | None = None,
    estimator: bool = False,
) -> Replay:
    """Replay a trace by the published rules, with their overheads or without. Raises `TraceError`, `ValueError`.

    `rescale_s`: what a start or a change of width costs for each doubling of it, and once more; None: as published.
    """
    jobs = sim_jobs(read_trace(trace) if isinstance(trace, Path) else trace, tables, pool, estimator=estimator)
    rules = rules_for(pool, slot_s=slot_s, overheads=overheads, rescale_s=rescale_s)
    chosen = policy_for(policy, rules) if isinstance(policy, str) else policy
    return Engine(jobs, pool, chosen, replace(rules, refuse_late=refuses(chosen))).run()

"""One replay from a trace file to its figures: what `dlh simulate` and the benchmark share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from scheduler.estimation.values import Basis
from scheduler.policies import policy_of
from scheduler.policies.deadline_energy import DeadlineEnergy
from scheduler.policies.edf_widest import EdfWidest
from scheduler.policies.ways import Rescale
from scheduler.simulate.engine import Engine, Replay, SimJob
from scheduler.simulate.pool import Part, SimPool
from scheduler.simulate.power import SHIPPED
from scheduler.simulate.rules import SLOT_S, Rules
from scheduler.simulate.tables import Tables, options_of
from scheduler.simulate.told import history_options
from scheduler.simulate.traces import TraceJob, read_trace
from scheduler.types import Option, Policy, ever_allowed


def sim_jobs(
    trace: Sequence[TraceJob], tables: Tables | None, pool: SimPool, *, estimator: bool = False
) -> list[SimJob]:
    """The jobs of a trace with their ways to run on this pool. Raises `TraceError`.

    With `estimator` a job may also run as the estimator told, where the trace says what that was.
    """
    powers = {kind: pool.power(kind) for kind in {job.kind for job in trace}}
    jobs = []
    for job in trace:
        told: Mapping[Option, Basis] = {}
        if job.model:
            options = options_of(job, tables, pool.most(job.kind), powers[job.kind])
        else:
            options, told = history_options(job, pool, powers[job.kind], estimator=estimator)
        allowed = tuple(option for option in options if ever_allowed(job.project, option, pool.quotas))
        jobs.append(
            SimJob(
                job_id=job.job_id,
                submitted_s=job.submitted_s,
                options=options if allowed else (),
                deadline_s=job.deadline_s,
                project=job.project,
                priority=job.priority,
                told=told,
                barred=bool(options) and not allowed,
            )
        )
    return jobs


def misfits(trace: Sequence[TraceJob], jobs: Sequence[SimJob], pool: SimPool) -> list[str]:
    """In sentences: which jobs of a trace can never run on this pool, and why."""
    barred = Counter(sim.project for sim in jobs if sim.barred)
    lost = [job for job, sim in zip(trace, jobs, strict=True) if not sim.options and not sim.barred]
    kinds = Counter(job.kind for job in lost if not pool.most(job.kind))
    said = [
        f"{count:,} of {len(trace):,} jobs ask for devices of the kind {kind}, of which the pool has none"
        for kind, count in sorted(kinds.items())
    ]
    said += [
        f"{count:,} of {len(trace):,} jobs ask for more than the quota of {project} ever lets them hold"
        for project, count in sorted(barred.items())
    ]
    wide = len(lost) - kinds.total()
    return [*said, f"{wide:,} of {len(trace):,} jobs are too large for the pool"] if wide else said


def one_speed(jobs: Sequence[SimJob], pool: SimPool) -> list[str]:
    """In sentences: of which devices a replay takes for granted how fast they are."""
    open_kinds = {option.kind for job in jobs for option in job.options if not option.model_name}
    said = []
    for kind in sorted(open_kinds):
        parts = [part for part in pool.parts if part.kind == kind]
        names = sorted({part.model for part in parts})
        if len(names) > 1:
            one = "tables and history have one speed of a job, and no model of device"
            said.append(f"{' and '.join(names)} are taken to be equally fast: {one}")
        elif any(part.named for part in parts):
            alike = "the devices that jobs were measured on, which neither trace nor tables name"
            said.append(f"{names[0]} is taken to be as fast as {alike}")
    return said


def unused(jobs: Sequence[SimJob], pool: SimPool) -> list[str]:
    """In sentences: of which devices no job is known to be able to use any."""
    usable = {option.key for job in jobs for option in job.options}
    idle = [part.model for part in pool.parts if not {(part.kind, part.model), (part.kind, "")} & usable]
    return [f"no job is known to run on {model}: such devices stay idle" for model in dict.fromkeys(idle)]


def power_words(trace: Sequence[TraceJob], pool: SimPool) -> list[str]:
    """In sentences: what devices draw, by which table, and whether the trace says it of jobs."""
    watts = {_label(part): part.power for part in pool.parts}
    said = [
        f"{label} draws {power.busy_w:g} W held and {power.idle_w:g} W idle ({power.basis_words}: {power.source})"
        for label, power in watts.items()
    ]
    bases = Counter(str(job.power_basis) for job in trace if job.power_w)
    if bases:
        parted = ", ".join(f"{count:,} {basis}" for basis, count in sorted(bases.items()))
        said.append(f"{bases.total():,} of {len(trace):,} jobs draw what the trace says they drew ({parted})")
    return said


def _label(part: Part) -> str:
    """Its model; its kind where nobody named a model and the watts are of another one than is taken for granted."""
    taken = SHIPPED.power(part.kind, part.model, named=True)
    return part.model if part.named or part.power == taken else part.kind


def lends_nothing(policy: Policy, pool: SimPool) -> str:
    """In a sentence: a policy keeps projects to quotas that they may go over; empty: it does not, or there are none."""
    lent = any(quota.borrows(kind) for quota in pool.quotas.values() for kind in quota.devices)
    if not lent or not isinstance(policy, EdfWidest):
        return ""
    return f"{policy.name} lends nothing: each project holds no more than its quota, whatever is free"


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

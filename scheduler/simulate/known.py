"""Of which jobs of a trace nothing says how long they take on the devices of a pool: none is replayed by guessing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.simulate.models import is_named
from scheduler.simulate.pool import SimPool
from scheduler.simulate.tables import Tables
from scheduler.simulate.told import stands_for, ways_on
from scheduler.simulate.trace_rows import TraceError
from scheduler.simulate.traces import TraceJob


class _Lack(NamedTuple):
    """What is not known of a job, in the words of all that lack the same, and what would tell it."""

    what: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """Jobs whose speed is unknown here."""

    jobs: frozenset[str]
    """By id."""
    whats: tuple[str, ...]
    """What is not known, each with the number of jobs and where the first of them is."""
    remedies: tuple[str, ...]

    @property
    def words(self) -> str:
        """All of it, as part of a sentence."""
        return "; ".join(self.whats)


def unknown_of(trace: Sequence[TraceJob], tables: Tables | None, pool: SimPool, *, estimator: bool) -> Unknown:
    """All jobs of a trace whose speed is unknown on this pool. Raises `ValueError` for a name of several models.

    One that asks for a kind of device that the pool lacks, or for more than it has, is none of them: it never runs.
    """
    lacks: dict[str, list[TraceJob]] = {}
    remedies: dict[str, None] = {}
    for job in trace:
        lack = _lack_of_table(job, tables) if job.model else _lack_of_device(job, pool, estimator=estimator)
        if lack is not None:
            lacks.setdefault(lack.what, []).append(job)
            remedies.setdefault(lack.remedy)
    whats = [f"{what} ({_number(jobs)})" for what, jobs in lacks.items()]
    ids = frozenset(job.job_id for jobs in lacks.values() for job in jobs)
    return Unknown(jobs=ids, whats=tuple(whats), remedies=tuple(remedies))


def _number(jobs: Sequence[TraceJob]) -> str:
    """With where the first of them is."""
    first = f"; first: {jobs[0].where}" if jobs[0].where else ""
    return f"1 job{first}" if len(jobs) == 1 else f"{len(jobs):,} jobs{first}"


def _lack_of_table(job: TraceJob, tables: Tables | None) -> _Lack | None:
    if tables is None:
        return _Lack(f"{job.model}, without a throughput table", "name the folder of throughput tables by --tables")
    try:
        tables.rates(job)
    except TraceError:
        batches = tables.batches(job.model)
        if not batches:
            return _Lack(
                f"{job.model}, of which there is no table", "put MODEL.csv of each into the folder of --tables"
            )
        known = ", ".join(map(str, batches))
        what = f"{job.model} at batch {job.batch_size}, of which its table knows {known}"
        return _Lack(what, "add each batch to its MODEL.csv as a row")
    return None


def _lack_of_device(job: TraceJob, pool: SimPool, *, estimator: bool) -> _Lack | None:
    """Of a job of our own history: on none of the pool's devices it ran, nor was anything told of them."""
    of_kind = [part for part in pool.parts if part.kind == job.kind]
    ways = job.ways if estimator else ()
    ran_on = job.device_model or _submitted_on(job, estimator=estimator)
    is_known = any(stands_for(part, ran_on) for part in of_kind)
    told = [part for part in pool.parts if ways_on(part, ways, job.kind, ran_on)]
    if is_known or told or not (of_kind or any(way.kind == part.kind for way in ways for part in pool.parts)):
        return None
    names = " or ".join(sorted({part.model for part in pool.parts}))
    able = not estimator and any(ways_on(part, job.ways, job.kind, ran_on) for part in pool.parts)
    remedy = "the estimates of --estimator know such devices" if able else "name devices of --pool as the trace does"
    if ways:
        models = ", ".join(sorted({way.model for way in ways if way.model}))
        return _Lack(f"jobs on {names}, which were estimated on {models}", remedy)
    return _Lack(f"jobs on {names}, which ran on {ran_on}", remedy)


def _submitted_on(job: TraceJob, *, estimator: bool) -> str:
    """The model of the way that it was submitted with, where it ran so."""
    same = (way.model for way in job.ways if (way.kind, way.count) == (job.kind, job.count))
    return next(same, "") if estimator else ""


def stand_ins(trace: Sequence[TraceJob], pool: SimPool) -> list[str]:
    """In sentences: for which models devices stand that --pool gives no name."""
    said = []
    for kind in sorted({part.kind for part in pool.parts if not part.named}):
        named = {part.model for part in pool.parts if part.named}
        ran_on = {job.device_model for job in trace if job.kind == kind and job.device_model}
        models = sorted(model for model in ran_on if not any(is_named(model, name) for name in named))
        if models:
            said.append(
                f"--pool names no model of {kind}: such devices stand for what each job ran on ({', '.join(models)})"
            )
    return said

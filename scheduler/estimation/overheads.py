"""Start and end of a run from what finished jobs took besides their steps, shrunk towards what was assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import RunOverheads
from scheduler.estimation.finished import Finished
from scheduler.estimation.link import spanned
from scheduler.estimation.prior import by_host
from scheduler.estimation.ranks import StepTime, step_time
from scheduler.estimation.run_time import forward_rows, joined_s, load_s, rows_read_s, saves_s, steps_s
from scheduler.estimation.values import Basis

LOAD_PRIOR_BYTES = 1 << 20
PRIOR_RUNS = 0.25
"""What was assumed of start and end counts as so many runs. It is off by half (of a logarithm) from machine to machine,
a run by a quarter (`run_time.OVERHEAD_RANGE`): the weight of a normal prior is the ratio of the variances."""
SLOW_START = 1.1
"""A node whose starts take so many times as long is named: less is within what starts vary by."""


def overheads_taught(model: DeviceModel, jobs: Sequence[Finished]) -> RunOverheads:
    """`model.overheads` as these jobs show them, whose programs were generated."""
    known = model.overheads
    if not jobs:
        return known
    known = _words_taught(replace(known, load_bytes_per_s=_load_rate(known, jobs)), jobs)
    seen = _starts_seen(known, jobs)
    known = _meeting_taught(_starts_taught(known, seen), jobs)
    known = replace(known, slow_starts=_slow_starts(known, jobs))
    ends = [end for job in jobs if (end := _end_s(model, known, job)) is not None]
    if ends:
        known = replace(known, end_s=_shrunk(known.end_s, ends, PRIOR_RUNS), basis=Basis.MEASURED)
    return replace(known, n_runs=min(len(seen), len(ends)))


def step_foretold(model: DeviceModel, job: Finished) -> StepTime:
    """Of a step where the job ran: what a slow network took must not be held against the device."""
    model = by_host(model) if job.by_host else model
    if job.nodes_link is not None:
        model = spanned(model, [job.nodes_link], 1, job.workload)
    return step_time(job.workload, job.allocation, model)


def _starts_seen(known: RunOverheads, jobs: Sequence[Finished]) -> list[tuple[Finished, float]]:
    """Jobs that show what ranks take to start, alone or beside each other, and their starts without the reading of the
    rows and the meeting of nodes. Of several ranks each on a node of its own the start shows the meeting alone."""
    return [
        (job, max(0.0, job.start_s - _load_s(known, job) - _met_s(known, job)))
        for job in jobs
        if job.start_s is not None and (_further(job) or _ranks(job) == 1)
    ]


def _starts_taught(known: RunOverheads, seen: Sequence[tuple[Finished, float]]) -> RunOverheads:
    """What a further rank on a node adds is learnt from jobs of several ranks where jobs of one tell the rest: ranks
    load and meet side by side, which takes seconds that one rank never shows. Jobs over several nodes are asked where
    none lay on one."""
    alone = [start_s for job, start_s in seen if not _further(job)]
    beside = [(job, start_s) for job, start_s in seen if _further(job)]
    near = [(job, start_s) for job, start_s in beside if not job.is_spread] or beside
    first = alone or [max(0.0, start_s - known.rank_start_s * _further(job)) for job, start_s in near]
    if first:
        known = replace(known, start_s=_shrunk(known.start_s, first, PRIOR_RUNS), basis=Basis.MEASURED)
    if alone and near:
        usual = float(np.median(alone))
        added = [max(0.0, start_s - usual) / _further(job) for job, start_s in near]
        known = replace(known, rank_start_s=_shrunk(known.rank_start_s, added, PRIOR_RUNS))
    return known


def _meeting_taught(known: RunOverheads, jobs: Sequence[Finished]) -> RunOverheads:
    """How long nodes take to meet is what jobs over several of them took longer to start than the same ranks on one,
    where jobs on one node have shown that."""
    if not any(job.start_s is not None and not job.is_spread for job in jobs):
        return known
    without = replace(known, meet_s=0.0)
    met = [
        max(0.0, job.start_s - _foretold_s(without, job)) for job in jobs if job.start_s is not None and job.is_spread
    ]
    return replace(known, meet_s=_shrunk(known.meet_s, met, PRIOR_RUNS), n_met=len(met)) if met else known


def _slow_starts(known: RunOverheads, jobs: Sequence[Finished]) -> dict[str, float]:
    """Nodes on which starts, reading of the rows included, take longer than on the others."""
    ratios: dict[str, list[float]] = {}
    for job in jobs:
        foretold_s = known.start_s + known.rank_start_s * _further(job) + load_s(job.workload, known)
        if job.node and job.start_s is not None and foretold_s > 0:
            ratios.setdefault(job.node, []).append(job.start_s / foretold_s)
    factors = {node: _shrunk(1.0, seen) for node, seen in ratios.items()}
    return {node: factor for node, factor in sorted(factors.items()) if factor >= SLOW_START}


def _load_rate(known: RunOverheads, jobs: Sequence[Finished]) -> float:
    """Bytes of rows that are read per second: all bytes over all seconds, so that large data count for most.

    What was assumed counts as `LOAD_PRIOR_BYTES` of them. Programs whose own code is slow to load, or that learn words
    meanwhile, do not count.
    """
    as_others = [job for job in jobs if not job.workload.load_s and not job.workload.words_s]
    told = [(job.workload.dataset_bytes, job.load_s) for job in as_others if job.load_s and job.workload.dataset_bytes]
    size_bytes = LOAD_PRIOR_BYTES + sum(count for count, _ in told)
    return size_bytes / (LOAD_PRIOR_BYTES / known.load_bytes_per_s + sum(seconds for _, seconds in told))


def _words_taught(known: RunOverheads, jobs: Sequence[Finished]) -> RunOverheads:
    """How long learning words takes is what jobs with texts took to load beyond the reading of their rows."""
    seen = [
        max(0.0, job.load_s - rows_read_s(job.workload, known)) / job.workload.words_s
        for job in jobs
        if job.load_s and job.workload.words_s and not job.workload.load_s
    ]
    return replace(known, words_times=_shrunk(known.words_times, seen), n_words=len(seen)) if seen else known


def _foretold_s(known: RunOverheads, job: Finished) -> float:
    """Of its start."""
    return known.start_s + known.rank_start_s * _further(job) + _load_s(known, job) + _met_s(known, job)


def _load_s(known: RunOverheads, job: Finished) -> float:
    return load_s(job.workload, known) if job.load_s is None else job.load_s


def _met_s(known: RunOverheads, job: Finished) -> float:
    """Of its start, in which its nodes met; over a link that nobody timed no longer than any take."""
    if not job.is_spread:
        return 0.0
    return known.meet_s + (joined_s(job.workload, job.allocation, job.nodes_link) if job.nodes_link else 0.0)


def _ranks(job: Finished) -> int:
    return len(job.allocation.batch_split)


def _further(job: Finished) -> int:
    """Ranks beside the first one on the node that had most of them."""
    return job.allocation.ranks_together - 1


def _end_s(model: DeviceModel, known: RunOverheads, job: Finished) -> float | None:
    """What the run took besides start, steps, passes over rows and checkpoints; None where it was not seen whole."""
    if job.run_s is None:
        return None
    workload, ranks = job.workload, _ranks(job)
    time = step_foretold(model, job)
    scale = job.step_s / time.step_s
    passes_s = job.evaluation_s
    if passes_s is None:
        passes_s = forward_rows(workload) / ranks * time.forward_row_s * scale
    start_s = _foretold_s(known, job) if job.start_s is None else job.start_s
    return max(
        0.0, job.run_s - steps_s(workload, job.step_s, time.last_share) - passes_s - start_s - saves_s(workload, known)
    )


def _shrunk(before: float, seen: Sequence[float], weight: float = 1.0) -> float:
    """Median of what was seen, weighed against what was assumed, which counts as `weight` of them."""
    count = len(seen)
    return float((count * np.median(seen) + weight * before) / (count + weight))

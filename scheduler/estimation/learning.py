"""Finished jobs correct the model of their kind of device: one factor on step times, shrunk towards 1, a run's start
and end, and peak memory (`scheduler.estimation.peaks`).

    log factor = sum over jobs kept of log(measured / predicted / pace of the node) / (jobs kept + SHRINK)

Jobs that computed in another precision than the model was fitted in teach a factor of that precision, on what the
others say of the device (`scheduler.estimation.in_precision`). Of what was measured, what k of them say counts as
1 / (1 / k + 1 / SHRINK) jobs: never as more than SHRINK, since a part of it may be of their precision alone.

A job that is much further off than the others is left out and counted. Nodes that surely differ from the others with
such devices have paces of their own (`scheduler.estimation.node_paces`). Runs in stages teach a factor of their own in
the same way, held against the model as the others have corrected it.

Who writes a program writes what it tells of its pace, too. So all jobs whose program one person wrote or edited count
as `OWN_JOBS` at most, have one say in what is usual where few were generated, and teach neither what starts and ends
take nor what a node does.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import Correction, NodePace, RunOverheads
from scheduler.estimation.features import Vector
from scheduler.estimation.finished import Finished, RanOut
from scheduler.estimation.in_precision import kept_ratio, precision_of
from scheduler.estimation.link import spanned
from scheduler.estimation.node_paces import Seen, node_paces
from scheduler.estimation.outliers import FEW, believable
from scheduler.estimation.peaks import PeakSeen, memory_taught
from scheduler.estimation.pipelines import staged_times
from scheduler.estimation.precision import Precision
from scheduler.estimation.prior import by_host
from scheduler.estimation.ranks import StepTime, most_of, rows_at_once, step_time
from scheduler.estimation.run_time import forward_rows, load_s, saves_s, steps_s
from scheduler.estimation.steps import Steps
from scheduler.estimation.values import Basis
from scheduler.workload import Workload, totals_at_batch

SHRINK = 3.0
"""So many jobs that agree move the factor half of the way."""
OWN_JOBS = 3
"""So much count all jobs whose program one person wrote or edited: alone they move a factor half of the way."""
MOST_FACTOR = 4.0
LOAD_PRIOR_BYTES = 1 << 20
PRIOR_RUNS = 0.25
"""What was assumed of start and end counts as so many runs. It is off by half (of a logarithm) from machine to machine,
a run by a quarter (`run_time.OVERHEAD_RANGE`): the weight of a normal prior is the ratio of the variances."""
SLOW_START = 1.1
"""A node whose starts take so many times as long is named: less is within what starts vary by."""
RECENT = 200
"""Older jobs no longer count: devices get other neighbours, other drivers ..."""
OWN_RECENT = 20
"""... of one person's programs those older than so many: whoever runs hundreds must not make all others old."""


def corrected(
    model: DeviceModel,
    finished: Sequence[Finished],
    ran_out: Sequence[RanOut] = (),
    before: Mapping[str, NodePace] | None = None,
) -> DeviceModel:
    """`model` with what the jobs on its kind of device teach; other jobs are not looked at. The order is oldest first.

    Replaces an earlier correction: give all jobs each time. `before`: the paces that nodes had by it, which stay where
    the jobs that are left cannot tell.
    """
    taught = [job for job in finished if _is_of(model, job)]
    taught = list(compress(taught, _newest(taught, OWN_RECENT)))
    jobs, staged = [job for job in taught if not job.is_staged], [job for job in taught if job.is_staged]
    lost = [job for job in ran_out if _is_of(model, job)][-RECENT:]
    memory = memory_taught(model.memory, _peaks(model, jobs, lost))
    plain = replace(model, correction=Correction(), corrections={}, stages=Correction())
    fixed = replace(plain, paces=before or {}, memory=memory)
    if jobs:
        fixed = _by_whole(fixed, jobs, before or {})
    return _by_staged(fixed, staged) if staged else fixed


def _by_whole(plain: DeviceModel, jobs: Sequence[Finished], before: Mapping[str, NodePace]) -> DeviceModel:
    """`plain` with what jobs teach whose ranks held the whole model."""
    errors = [_log_error(plain, job) for job in jobs]
    generated = [(job, error) for job, error in zip(jobs, errors, strict=True) if not job.author]
    seen = [Seen(job.node, _program(job), error) for job, error in generated]
    plain = replace(plain, paces=node_paces(seen, before))
    fixed, kept = _by_precision(plain, jobs, errors)
    return replace(fixed, overheads=_overheads(fixed, [job for job in kept if not job.author]))


def _by_precision(
    plain: DeviceModel, jobs: Sequence[Finished], log_errors: Sequence[float]
) -> tuple[DeviceModel, list[Finished]]:
    """`plain` with a factor of each precision in which jobs computed, and those of them that are believed."""
    told = [precision_of(plain, job.workload.precision) for job in jobs]

    def heard(precision: Precision, known: float = 1.0) -> _Heard:
        """Of those in one precision, beside a factor that is known already."""
        alike = [each is precision for each in told]
        errors = [error - math.log(known) for error in compress(log_errors, alike)]
        return _heard(plain, list(compress(jobs, alike)), errors)

    own = heard(plain.precision)
    alone = _correction(own).factor
    others = {
        precision: heard(precision, alone).plus(alone)
        for precision in dict.fromkeys(each for each in told if each is not plain.precision)
    }

    def device(but: Precision | None = None) -> Correction:
        """In the precision that was measured, without what jobs in one of the others say."""
        return _correction(own, beside=[each for precision, each in others.items() if precision is not but])

    corrections = {str(precision): _correction(each, known=device(but=precision)) for precision, each in others.items()}
    believed = {id(job) for each in (own, *others.values()) for job in each.jobs}
    fixed = replace(plain, correction=device(), corrections=corrections)
    return fixed, [job for job in jobs if id(job) in believed]


def _by_staged(model: DeviceModel, jobs: Sequence[Finished]) -> DeviceModel:
    """`model` with what runs in stages teach: how much longer they take than it says by now."""
    errors = [
        math.log(job.step_s / staged_times(Steps(job.workload), [job.allocation], model)[0].step_s) for job in jobs
    ]
    return replace(model, stages=_correction(_heard(model, jobs, errors)))


@dataclass(frozen=True)
class _Heard:
    """What jobs in one precision say: those that are believed, and how much longer than foretold each of them took."""

    jobs: Sequence[Finished]
    log_errors: Vector
    """Without the pace of the node."""
    n_left_out: int

    def plus(self, factor: float) -> _Heard:
        """Held against a model without this factor."""
        return replace(self, log_errors=self.log_errors + math.log(factor))


def _heard(model: DeviceModel, jobs: Sequence[Finished], log_errors: Sequence[float]) -> _Heard:
    """Of all these jobs."""
    if not jobs:
        return _Heard((), np.zeros(0), n_left_out=0)
    # What is told of the node is no part of what all such devices take; ranks wait for the slowest.
    paces = [math.log(max(map(model.pace_on, job.nodes), default=1.0)) for job in jobs]
    errors = np.array(log_errors) - paces
    generated = np.array([not job.author for job in jobs])
    # One person's many programs must not outvote the few that were generated.
    believed = believable(errors, generated if generated.sum() >= FEW else np.array(_newest(jobs, 1)))
    kept = list(compress(jobs, believed))
    return _Heard(kept, errors[believed], n_left_out=len(jobs) - len(kept))


def _correction(heard: _Heard, *, known: Correction | None = None, beside: Sequence[_Heard] = ()) -> Correction:
    """The factor that jobs teach: shrunk towards what is `known` of the device, `beside` what those in other precisions
    say of it."""
    known = known or Correction()
    before = math.log(known.factor)
    weights = _weights(heard.jobs)
    total, size = float((weights * (heard.log_errors - before)).sum()), float(weights.sum())
    for other in beside:
        each = _weights(other.jobs)
        each = each * SHRINK / (SHRINK + each.sum())
        total, size = total + float((each * (other.log_errors - before)).sum()), size + float(each.sum())
    limit = math.log(MOST_FACTOR)
    shift = before + min(limit, max(-limit, total / (size + SHRINK)))
    return Correction(
        factor=math.exp(shift), n_jobs=len(heard.jobs), n_left_out=heard.n_left_out,
        n_other=known.n_jobs + known.n_other + sum(len(other.jobs) for other in beside),
    )  # fmt: skip


def _newest(jobs: Sequence[Finished], of_one_person: int) -> list[bool]:
    """Which of them, oldest first, are among the newest `RECENT` generated or so many of one person's programs."""
    counted: Counter[str] = Counter()
    found = []
    for job in reversed(jobs):
        counted[job.author] += 1
        found.append(counted[job.author] <= (of_one_person if job.author else RECENT))
    return found[::-1]


def _weights(jobs: Sequence[Finished]) -> Vector:
    """What each counts."""
    written = Counter(job.author for job in jobs if job.author)
    return np.array([min(1.0, OWN_JOBS / written[job.author]) if job.author else 1.0 for job in jobs])


def _program(job: Finished) -> Hashable:
    """What is off by the same wherever it runs: as many weights, shared out alike."""
    way = job.allocation
    return job.workload.parameters, job.workload.precision, way.mode, way.batch_split, way.threads


def _is_of(model: DeviceModel, job: Finished | RanOut) -> bool:
    return (job.allocation.kind, job.allocation.model_name) == model.key


def _peaks(model: DeviceModel, jobs: Sequence[Finished], lost: Sequence[RanOut]) -> list[PeakSeen]:
    """What is known of peaks, each of the rank with most rows; of programs that one person wrote, the newest few."""
    told = [job for job in jobs if job.peak_bytes is not None]
    seen = [PeakSeen(workload=_at_once(model, job), peak_bytes=job.limit_bytes, ran_out=True) for job in lost]
    counting = compress(told, _newest(told, OWN_JOBS))
    return [PeakSeen(workload=_at_once(model, job), peak_bytes=job.peak_bytes or 0.0) for job in counting] + seen


def _at_once(model: DeviceModel, job: Finished | RanOut) -> Workload:
    """With the activations that take as much in the precision of the model as its own do in its own."""
    rows = rows_at_once(job.workload, most_of(job.workload, max(job.allocation.batch_split)))
    totals = totals_at_batch(job.workload, rows)
    return replace(totals, activation_bytes=totals.activation_bytes * kept_ratio(model, job.workload))


def _log_error(model: DeviceModel, job: Finished) -> float:
    return math.log(job.step_s / _time(model, job).step_s)


def _time(model: DeviceModel, job: Finished) -> StepTime:
    """Of a step where the job ran: what a slow network took must not be held against the device."""
    model = by_host(model) if job.by_host else model
    if job.nodes_link is not None:
        model = spanned(model, [job.nodes_link], 1, job.workload)
    return step_time(job.workload, job.allocation, model)


def _overheads(model: DeviceModel, jobs: Sequence[Finished]) -> RunOverheads:
    """Start and end of a run from what the jobs' runs took besides their steps, shrunk towards what was assumed.

    What a further rank on a node adds to the start is learnt from jobs of several ranks where jobs of one tell the
    rest: ranks load and meet side by side, which takes seconds that one rank never shows. Ranks that had no other on
    their nodes show neither.
    """
    known = model.overheads
    if not jobs:
        return known
    known = replace(known, load_bytes_per_s=_load_rate(known, jobs))
    telling = [job for job in jobs if _further(job) or _ranks(job) == 1]
    starts = [
        (_further(job), max(0.0, job.start_s - _load_s(known, job))) for job in telling if job.start_s is not None
    ]
    alone = [start_s for further, start_s in starts if not further]
    several = [(further, start_s) for further, start_s in starts if further]
    first = alone or [max(0.0, start_s - known.rank_start_s * more) for more, start_s in several]
    if first:
        known = replace(known, start_s=_shrunk(known.start_s, first, PRIOR_RUNS), basis=Basis.MEASURED)
    if alone and several:
        usual = float(np.median(alone))
        added = [max(0.0, start_s - usual) / more for more, start_s in several]
        known = replace(known, rank_start_s=_shrunk(known.rank_start_s, added, PRIOR_RUNS))
    known = replace(known, slow_starts=_slow_starts(known, jobs))
    ends = [end for job in jobs if (end := _end_s(model, known, job)) is not None]
    if ends:
        known = replace(known, end_s=_shrunk(known.end_s, ends, PRIOR_RUNS), basis=Basis.MEASURED)
    return replace(known, n_runs=min(len(starts), len(ends)))


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

    What was assumed counts as `LOAD_PRIOR_BYTES` of them. Programs whose own code is slow to load do not count.
    """
    as_others = [job for job in jobs if not job.workload.load_s]
    told = [(job.workload.dataset_bytes, job.load_s) for job in as_others if job.load_s and job.workload.dataset_bytes]
    size_bytes = LOAD_PRIOR_BYTES + sum(count for count, _ in told)
    return size_bytes / (LOAD_PRIOR_BYTES / known.load_bytes_per_s + sum(seconds for _, seconds in told))


def _load_s(known: RunOverheads, job: Finished) -> float:
    return load_s(job.workload, known) if job.load_s is None else job.load_s


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
    time = _time(model, job)
    scale = job.step_s / time.step_s
    passes_s = job.evaluation_s
    if passes_s is None:
        passes_s = forward_rows(workload) / ranks * time.forward_row_s * scale
    start_s = job.start_s
    if start_s is None:
        start_s = known.start_s + known.rank_start_s * _further(job) + _load_s(known, job)
    return max(
        0.0, job.run_s - steps_s(workload, job.step_s, time.last_share) - passes_s - start_s - saves_s(workload, known)
    )


def _shrunk(before: float, seen: Sequence[float], weight: float = 1.0) -> float:
    """Median of what was seen, weighed against what was assumed, which counts as `weight` of them."""
    count = len(seen)
    return float((count * np.median(seen) + weight * before) / (count + weight))

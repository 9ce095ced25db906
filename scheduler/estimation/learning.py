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
from scheduler.estimation.device_parts import Correction, NodePace
from scheduler.estimation.features import Vector
from scheduler.estimation.finished import Finished, RanOut
from scheduler.estimation.in_precision import kept_ratio, precision_of
from scheduler.estimation.node_paces import Seen, node_paces
from scheduler.estimation.outliers import FEW, believable
from scheduler.estimation.overheads import overheads_taught, step_foretold
from scheduler.estimation.peaks import PeakSeen, memory_taught
from scheduler.estimation.pipelines import staged_times
from scheduler.estimation.precision import Precision
from scheduler.estimation.ranks import most_of, rows_at_once
from scheduler.estimation.steps import Steps
from scheduler.workload import Workload, totals_at_batch

SHRINK = 3.0
"""So many jobs that agree move the factor half of the way."""
OWN_JOBS = 3
"""So much count all jobs whose program one person wrote or edited: alone they move a factor half of the way."""
MOST_FACTOR = 4.0
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
    return replace(fixed, overheads=overheads_taught(fixed, [job for job in kept if not job.author]))


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
    return math.log(job.step_s / step_foretold(model, job).step_s)

"""Step times on several devices, from the step time on one.

sync    local step at the largest share of rows x (1 + contention (k - 1)) + copies + allreduce of the gradients
        + latency of the small allreduces of batch statistics, where these are synced; k: ranks together on a node
single  one process with n CPU threads: step x (1 - p + p / n), p the share of the work that threads share (Amdahl 1967)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from scheduler.estimation.calibration import CalibrationPoint
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.features import Vector
from scheduler.estimation.in_precision import in_precision
from scheduler.estimation.link import LEAST_SECONDS, messages, moved_share, rounding_s, sent_bytes, step_sums_s
from scheduler.estimation.predict import predict
from scheduler.estimation.steps import Steps
from scheduler.estimation.values import Allocation, Basis
from scheduler.workload import Workload

MOST_CONTENTION = 1.0
SCALING_NOISE = 0.06
"""Relative error of a step on several ranks that is nothing to be bent for."""
CONTENTION_SPREAD = 0.2
LINK_SPREAD = {Basis.MEASURED: 0.5, Basis.MODELLED: 1.0, Basis.ASSUMED: 10.0}
"""How far latency and seconds per byte may be from what they were held for, as a share of it."""
LEAST_OF_LINK = 0.01
"""At least this share of the seconds per byte stays, however well the sums hide behind the backward pass."""
ITERATIONS = 8


@dataclass(frozen=True)
class StepTime:
    """Seconds of one step, before intervals."""

    step_s: float
    local_s: float
    """Of the largest rank alone, its neighbours' traffic included."""
    communication_s: float
    forward_row_s: float
    """Of one row in a forward pass on one rank; a declared slowdown draws out steps alone."""
    work_share: float
    """Of the step, in which the largest rank's device computes: not while it is called, or the ranks add up."""
    disagreement: float
    near: bool
    """Whether a calibration point is like it."""
    rank_totals: Workload
    """Without operators, at the most rows that the largest rank takes at once in an epoch: all of its own, or those of
    a micro-batch; of the last step, where that has more."""
    half: float = 0.0
    """Half width of the log range of what is not known of this way beside the step on one device."""
    precision_half: float = 0.0
    """The same of what the precision of its products leaves open, where none of its own steps were timed."""
    last_local_share: float = 1.0
    """Of an epoch's last step, which may have more or fewer rows: what takes `local_s`, relative to the others ..."""
    last_sent_share: float = 1.0
    """... and what takes `communication_s`."""

    micro_rows: int = 0
    """Of a pipeline: rows of a micro-batch, as many as take the least time; 0: it is none."""

    @property
    def last_share(self) -> float:
        """What an epoch's last step takes, relative to the others."""
        return (self.last_local_share * self.local_s + self.last_sent_share * self.communication_s) / self.step_s

    def at_pace(self, factor: float, *, with_messages: bool) -> StepTime:
        """So many times as long, as was measured; what ranks send each other stays as it is unless it is told."""
        if factor == 1.0:
            return self
        local_s = self.local_s * factor
        communication_s = self.communication_s * (factor if with_messages else 1.0)
        step_s = local_s + communication_s
        return replace(
            self,
            step_s=step_s,
            local_s=local_s,
            communication_s=communication_s,
            forward_row_s=self.forward_row_s * factor,
            work_share=self.work_share * factor * self.step_s / step_s,
        )


def step_time(workload: Workload, allocation: Allocation, model: DeviceModel) -> StepTime:
    """Step time of `workload` shared out over `allocation`."""
    return step_times(Steps(workload), [allocation], model)[0]


def step_times(steps: Steps, allocations: Sequence[Allocation], model: DeviceModel) -> list[StepTime]:
    """The same for many allocations at once: one pass over the terms for all shares of rows."""
    workload, times = steps.workload, []
    model = in_precision(model, workload)
    shares = [max(allocation.batch_split) for allocation in allocations]
    at_once = at_once_of(workload, shares)
    found = steps.on(model, at_once.values())
    for allocation, rows in zip(allocations, shares, strict=True):
        step, ranks = found[at_once[rows]], len(allocation.batch_split)
        beside = contention_factor(model, allocation.ranks_together)
        scale = model.correction.factor * thread_factor(model, allocation.threads) * beside
        own_s = step.alone_s * workload.parts(rows) * scale
        last = last_of(workload, rows)
        last_s = found[at_once[last]].alone_s * workload.parts(last) * scale
        local_s = own_s * model.slowdown
        communication_s = sums_s(workload, ranks, allocation.mode, model)
        step_s = local_s + communication_s
        times.append(
            StepTime(
                step_s=step_s,
                local_s=local_s,
                communication_s=communication_s,
                forward_row_s=own_s * step.forward_share / rows,
                work_share=step.work_share * local_s / step_s,
                disagreement=step.disagreement,
                near=step.near,
                rank_totals=steps.totals(max(at_once[rows], at_once[last])),
                precision_half=step.half,
                last_local_share=last_s / own_s,
            )
        )
    return times


def sums_s(workload: Workload, ranks: int, mode: str, model: DeviceModel) -> float:
    """Seconds that so many ranks add up in each step."""
    sent_s = step_sums_s(model.sums_link, sent_bytes(workload, ranks, mode), ranks, workload.step_messages)
    by_core = model.kind == "cpu" or model.host_link is not None
    return sent_s + (rounding_s(workload, ranks, mode) if by_core and ranks > 1 else 0.0)


def last_of(workload: Workload, rows: int) -> int:
    """Rows that a rank with `rows` of each step has of the last one of an epoch, about."""
    return max(1, round(rows * workload.last_rows / workload.global_batch_size))


def most_of(workload: Workload, rows: int) -> int:
    """The most rows of a step that such a rank has in an epoch."""
    return max(rows, last_of(workload, rows))


def at_once_of(workload: Workload, shares: Iterable[int]) -> dict[int, int]:
    """`rows_at_once` of each of these shares of a step, and of what each has of an epoch's last step."""
    shares = set(shares)
    return {rows: rows_at_once(workload, rows) for rows in shares.union(last_of(workload, rows) for rows in shares)}


def rows_at_once(workload: Workload, rows: int) -> int:
    """Rows of the largest micro-batch of a rank that has `rows` rows of a step."""
    return -(-rows // workload.parts(rows))


def thread_factor(model: DeviceModel, threads: int) -> float:
    """Step time with so many CPU threads, relative to one; on a GPU the threads only feed it."""
    if model.kind != "cpu":
        return 1.0
    return 1.0 - model.parallel_share + model.parallel_share / max(1, threads)


def contention_factor(model: DeviceModel, together: int) -> float:
    """Local step time of one of so many ranks on a node, relative to being alone there."""
    return 1.0 + model.contention * (together - 1)


def fit_parallel_share(model: DeviceModel, points: Sequence[CalibrationPoint]) -> DeviceModel:
    """The share p from points with several threads in one process."""
    several = [point for point in points if point.threads > 1 and point.count == 1]
    if not several or model.kind != "cpu":
        return model
    alone_s = np.exp(predict(model, [point.workload for point in several]).log_step_s)
    shares = [
        (1.0 - point.typical_s / one_s) / (1.0 - 1.0 / point.threads)
        for point, one_s in zip(several, alone_s, strict=True)
    ]
    return replace(model, parallel_share=float(np.clip(median(shares), 0.0, 1.0)), parallel_basis=Basis.MODELLED)


def fit_contention(model: DeviceModel, points: Sequence[CalibrationPoint]) -> DeviceModel:
    """Contention, latency and bandwidth from points with several ranks, all at once: least squares of relative error.

    Robust, not negative, and drawn to what the link was timed or assumed to be: a sum that goes on behind the backward
    pass, or that waits for a wake-up, costs less or more in a step than by itself.
    """
    several = [point for point in points if point.count > 1]
    if not several:
        return model
    alone_s = np.exp(predict(model, [point.workload for point in several]).log_step_s)
    local_s = alone_s * np.array([thread_factor(model, point.threads) for point in several])
    taken_s = np.array([point.typical_s for point in several])
    inputs = np.array(
        [
            [
                one_s * (point.count - 1),
                messages(point.count) * (1 + point.workload.step_messages),
                moved_share(point.count) * sent_bytes(point.workload, point.count),
            ]
            for point, one_s in zip(several, local_s, strict=True)
        ]
    )
    wide = LINK_SPREAD[model.link.basis]
    start = np.array([model.contention, model.link.latency_s, 1.0 / model.link.bytes_per_s])
    spread = np.array([CONTENTION_SPREAD, wide * start[1], wide * start[2]])
    found = _drawn_to(start, spread, inputs / taken_s[:, None], 1.0 - local_s / taken_s)
    link = replace(
        model.link,
        latency_s=max(float(found[1]), LEAST_SECONDS),
        bytes_per_s=1.0 / max(float(found[2]), start[2] * LEAST_OF_LINK),
        basis=Basis.MODELLED if model.link.basis is Basis.ASSUMED else model.link.basis,
        n_points=max(model.link.n_points, len(several)),
    )
    contention = float(np.clip(found[0], 0.0, MOST_CONTENTION))
    return replace(model, contention=contention, contention_basis=Basis.MODELLED, link=link, message_link=model.link)


def _drawn_to(start: Vector, spread: Vector, inputs: Vector, wanted: Vector) -> Vector:
    """Coefficients >= 0 with inputs @ coefficients near `wanted`; reweighted in turns, so that outliers pull less."""
    from scipy.optimize import nnls

    weights = np.ones(len(wanted))
    found = start
    for _ in range(ITERATIONS):
        rows = np.sqrt(weights)[:, None] * inputs * spread / SCALING_NOISE
        both = np.vstack([rows, np.eye(len(start))])
        found = spread * nnls(both, np.concatenate([np.sqrt(weights) * wanted / SCALING_NOISE, start / spread]))[0]
        weights = 1.0 / np.sqrt(1.0 + ((inputs @ found - wanted) / SCALING_NOISE) ** 2)
    return found

"""Seconds of a step by a fitted model: the formula of `features`, evaluated for many workloads at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from scheduler.estimation.columns import Columns
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import Coefficients, Corrector
from scheduler.estimation.features import Block, Vector, terms
from scheduler.workload import OpClass, Workload, totals_at_batch

CALLS = ("operators", "optimizer_tensors", "step")
"""Groups of terms that are the host's time, not the device's."""
EXPONENTS = (-60.0, 20.0)
"""Of seconds per FLOP, byte or piece: beyond them lies no device, whatever the shapes are that a program tells of."""
SHARE_WEIGHT = 2.0
"""In a summary a share of 1 weighs as much as two decades of size."""


@dataclass(frozen=True)
class Table:
    """Terms of several steps, by group."""

    size: int
    """Number of steps."""
    blocks: dict[str, Block]


def tabulate(workloads: Sequence[Workload]) -> Table:
    """Gather the terms of all workloads, each at its traced batch size."""
    gathered: dict[str, list[Block]] = {}
    for number, workload in enumerate(workloads):
        for group, block in terms(workload, [workload.batch_size]).items():
            gathered.setdefault(group, []).append(replace(block, owner=block.owner + number))
    return Table(len(workloads), {group: _joined(blocks) for group, blocks in gathered.items()})


def _joined(blocks: Sequence[Block]) -> Block:
    return Block(*(np.concatenate([getattr(block, item.name) for block in blocks]) for item in fields(Block)))


def group_seconds(table: Table, member: Coefficients) -> dict[str, Vector]:
    """Seconds of every term, by group."""
    return {name: _seconds(block, np.array(member[name])[:, None])[:, 0] for name, block in table.blocks.items()}


def member_seconds(table: Table, member: Coefficients) -> Vector:
    """Seconds of every step by one member of the ensemble."""
    total = np.zeros(table.size)
    for name, seconds in group_seconds(table, member).items():
        total += np.bincount(table.blocks[name].owner, seconds, table.size)
    return total


@dataclass(frozen=True)
class Prediction:
    """Logarithms, one entry per step."""

    log_step_s: Vector
    disagreement: Vector
    """Standard deviation over the ensemble."""
    forward_share: Vector
    """Of the step: what a forward pass alone takes, averaged over the ensemble."""
    work_share: Vector
    """Of the step: in which the device computes and moves bytes, and is not called or waited for; averaged likewise."""


def predict(model: DeviceModel, workloads: Sequence[Workload]) -> Prediction:
    """Seconds per step at the traced batch sizes on one device, finished jobs not counted."""
    return predicted(model, tabulate(workloads), lambda: np.array([summary(workload) for workload in workloads]))


def predicted(model: DeviceModel, table: Table, summaries: Callable[[], Vector]) -> Prediction:
    """The same of steps that are tabulated; `summaries` of each are asked for where the model wants them."""
    total, forward, calls = (np.zeros((table.size, len(model.members))) for _ in range(3))
    for name, block in table.blocks.items():
        seconds = _seconds(block, np.array([member[name] for member in model.members]).T)
        spent = block.per_step(seconds, table.size)
        total += spent
        if name in CALLS:
            calls += spent
        if block.forward.any():
            forward += block.per_step(seconds * block.forward[:, None], table.size)
    logs = np.log(total)
    mean = logs.mean(axis=1)
    if model.corrector is not None:
        mean = mean + corrections(model.corrector, summaries())
    return Prediction(mean, logs.std(axis=1), (forward / total).mean(axis=1), (1.0 - calls / total).mean(axis=1))


def _seconds(block: Block, weights: Vector) -> Vector:
    """[terms, members] from [columns, members]."""
    # `np.clip` takes several times as long for so few
    exponents = np.minimum(np.maximum(block.phi @ weights, EXPONENTS[0]), EXPONENTS[1])
    seconds: Vector = block.amounts[:, None] * np.exp(exponents)
    return seconds


def corrections(corrector: Corrector, inputs: Vector) -> Vector:
    """Log factors of the Gaussian process."""
    known = np.array(corrector.inputs)
    squares = ((inputs[:, None, :] - known[None, :, :]) ** 2).sum(axis=2)
    result: Vector = np.exp(-squares / (2 * corrector.length**2)) @ np.array(corrector.alpha)
    return result


def summary(workload: Workload) -> Vector:
    """What kind of program this is, as a few numbers: sizes in decades, and what its arithmetic and traffic consist of.

    Distances between summaries say how unlike two programs are; no family has a place in it.
    """
    found: Vector = summaries(workload, [workload.batch_size])[0]
    return found


def summaries(workload: Workload, rows: Sequence[int]) -> Vector:
    """Summaries of the same step on each of several numbers of rows."""
    columns = Columns.of(workload, rows)

    def flops(*ops: OpClass) -> Vector:
        some = columns.only(*ops)
        return some.flops @ some.repeats

    def moved(op: OpClass) -> Vector:
        some = columns.only(op)
        return some.moved_bytes @ some.repeats

    conv, gemm = flops(OpClass.CONV, OpClass.DEPTHWISE), flops(OpClass.GEMM, OpClass.ATTENTION)
    by_class = [moved(op) for op in OpClass]
    dense, traffic = np.maximum(1.0, conv + gemm), np.maximum(1.0, np.sum(by_class, axis=0))
    each = np.ones(len(rows))
    sizes = (
        flops(*OpClass),
        traffic,
        workload.parameters * each,
        np.array([totals_at_batch(workload, number).activation_bytes for number in rows]),
        np.array(rows),
        len(workload.operators) * each,
    )
    logs = [np.log10(np.maximum(1.0, values)) for values in sizes]
    shares = [SHARE_WEIGHT * values for values in (conv / dense, *(part / traffic for part in by_class))]
    return np.stack([*logs, *shares], axis=1)

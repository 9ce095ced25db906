"""Seconds of a step by a fitted model: the formula of `features`, evaluated for many workloads at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduler.device_model import Coefficients, Corrector, DeviceModel
from scheduler.features import Vector, terms
from scheduler.workload import OpClass, Workload

SHARE_WEIGHT = 2.0
"""In a summary a share of 1 weighs as much as two decades of size."""


@dataclass(frozen=True)
class Block:
    """All terms of one group over all workloads."""

    owner: npt.NDArray[np.intp]
    """Number of the workload that a term belongs to."""
    amounts: Vector
    phi: Vector
    forward: npt.NDArray[np.bool_]
    once: npt.NDArray[np.bool_]
    """Terms of the step itself, whatever the rows: the optimizer, the loop."""


@dataclass(frozen=True)
class Table:
    """Terms of several workloads, by group."""

    size: int
    blocks: dict[str, Block]


def tabulate(workloads: Sequence[Workload]) -> Table:
    """Gather the terms of all workloads."""
    gathered: dict[str, list[tuple[int, float, Vector, bool, bool]]] = {}
    for number, workload in enumerate(workloads):
        found = terms(workload)
        for group, *rest in zip(found.groups, found.amounts, found.phi, found.forward, found.weights, strict=True):
            gathered.setdefault(group, []).append((number, *rest))
    blocks = {}
    for group, rows in gathered.items():
        owner, amounts, phi, forward, once = zip(*rows, strict=True)
        blocks[group] = Block(np.array(owner), np.array(amounts), np.array(phi), np.array(forward), np.array(once))
    return Table(len(workloads), blocks)


def group_seconds(table: Table, member: Coefficients) -> dict[str, Vector]:
    """Seconds of every term, by group."""
    return {name: block.amounts * np.exp(block.phi @ np.array(member[name])) for name, block in table.blocks.items()}


def member_seconds(table: Table, member: Coefficients) -> Vector:
    """Seconds per step of every workload by one member of the ensemble."""
    total = np.zeros(table.size)
    for name, seconds in group_seconds(table, member).items():
        total += np.bincount(table.blocks[name].owner, seconds, table.size)
    return total


@dataclass(frozen=True)
class Prediction:
    """Logarithms, one entry per workload."""

    log_step_s: Vector
    disagreement: Vector
    """Standard deviation over the ensemble."""
    forward_share: Vector
    """Of the step: what a forward pass alone takes."""


def predict(model: DeviceModel, workloads: Sequence[Workload]) -> Prediction:
    """Seconds per step at the traced batch sizes on one device, finished jobs not counted."""
    table = tabulate(workloads)
    logs = np.array([np.log(member_seconds(table, member)) for member in model.members])
    mean = logs.mean(axis=0)
    if model.corrector is not None:
        mean = mean + corrections(model.corrector, np.array([summary(workload) for workload in workloads]))
    return Prediction(mean, logs.std(axis=0), forward_share(table, model.members))


def forward_share(table: Table, members: Sequence[Coefficients]) -> Vector:
    """Share of the forward pass, averaged over the ensemble."""
    shares = np.zeros(table.size)
    for member in members:
        total, forward = np.zeros(table.size), np.zeros(table.size)
        for name, seconds in group_seconds(table, member).items():
            block = table.blocks[name]
            total += np.bincount(block.owner, seconds, table.size)
            forward += np.bincount(block.owner, seconds * block.forward, table.size)
        shares += forward / total / len(members)
    return shares


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
    conv = sum(item.flops for item in workload.operators if item.op in (OpClass.CONV, OpClass.DEPTHWISE))
    gemm = sum(item.flops for item in workload.operators if item.op in (OpClass.GEMM, OpClass.ATTENTION))
    moved = dict.fromkeys(OpClass, 0.0)
    for item in workload.operators:
        moved[item.op] += item.read_bytes + item.write_bytes
    flops, traffic = max(1.0, conv + gemm), max(1.0, sum(moved.values()))
    sizes = (
        workload.flops,
        traffic,
        workload.parameters,
        workload.activation_bytes,
        workload.batch_size,
        len(workload.operators),
    )
    logs = [math.log10(max(1.0, value)) for value in sizes]
    shares = [conv / flops, *(moved[op] / traffic for op in OpClass)]
    return np.array([*logs, *(SHARE_WEIGHT * share for share in shares)])

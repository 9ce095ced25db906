"""Workloads of made programs, and a device whose law is known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scheduler.estimation.calibration import CalibrationPoint
from scheduler.estimation.values import Allocation
from scheduler.workload import OpClass, Operator, Workload

KIND, NAME = "cpu", "Test core"


def conv(batch: int, inside: int, outside: int, kernel: int, size: int, *, first: bool = False) -> Operator:
    places = size * size
    per_row = {
        "flops": 2.0 * inside * outside * kernel**2 * places,
        "read_bytes": 4.0 * inside * places,
        "write_bytes": 4.0 * outside * places,
        "batch": 1.0,
    }
    shape = {"batch": batch, "in": inside, "out": outside, "kernel": kernel, "size": size, "groups": 1}
    return Operator(
        op=OpClass.CONV,
        flops=batch * per_row["flops"],
        read_bytes=batch * per_row["read_bytes"] + 4.0 * inside * outside * kernel**2,
        write_bytes=batch * per_row["write_bytes"],
        shape=shape,
        input_gradient=not first,
        per_row=per_row,
    )


def gemm(batch: int, inside: int, outside: int) -> Operator:
    per_row = {"flops": 2.0 * inside * outside, "read_bytes": 4.0 * inside, "write_bytes": 4.0 * outside, "batch": 1.0}
    return Operator(
        op=OpClass.GEMM,
        flops=batch * per_row["flops"],
        read_bytes=batch * per_row["read_bytes"] + 4.0 * inside * outside,
        write_bytes=batch * per_row["write_bytes"],
        shape={"batch": batch, "in": inside, "out": outside, "count": 1},
        per_row=per_row,
    )


def pointwise(batch: int, elements: int) -> Operator:
    per_row = {"read_bytes": 4.0 * elements, "write_bytes": 4.0 * elements, "elements": float(elements)}
    bytes_each = 4.0 * elements * batch
    return Operator(
        op=OpClass.ELEMENTWISE,
        flops=0.0,
        read_bytes=bytes_each,
        write_bytes=bytes_each,
        shape={"elements": elements * batch},
        per_row=per_row,
    )


def workload(
    *, layers: int = 3, filters: int = 16, size: int = 24, batch: int = 32, nodes: int = 64, epochs: int = 4
) -> Workload:
    """A small convolutional net: `layers` convolutions, then two linear layers."""
    operators, inside, kept, parameters = [], 3, 0.0, 0
    for layer in range(layers):
        operators += [conv(batch, inside, filters, 3, size, first=layer == 0), pointwise(batch, filters * size * size)]
        kept += 8.0 * filters * size * size
        parameters += inside * filters * 9
        inside = filters
    operators += [gemm(batch, filters, nodes), pointwise(batch, nodes), gemm(batch, nodes, 10)]
    parameters += filters * nodes + nodes * 10
    return Workload(
        batch_size=batch,
        operators=tuple(operators),
        parameters=parameters,
        parameter_bytes=4 * parameters,
        gradient_bytes=4 * parameters,
        optimizer_bytes=8 * parameters,
        activation_bytes=batch * kept,
        transient_bytes=batch * kept / 4,
        data_bytes=3 * size * size * 1000,
        dataset_bytes=3 * size * size * 1400,
        fixed_parameters_ops=2 * layers + 4,
        train_rows=batch * max(1, 1000 // batch),  # whole steps
        evaluated_rows=400,
        epochs=epochs,
        global_batch_size=batch,
        per_row={"activation_bytes": kept, "transient_bytes": kept / 4},
    )


def true_step_s(work: Workload) -> float:
    """The law: 40 GFLOP/s for convolutions, less for few channels; 25 for products; 5 GB/s; 10 us a call."""
    total = 1e-3 + 2e-10 * (work.parameter_bytes + work.gradient_bytes + work.optimizer_bytes)
    for item in work.operators:
        passes = 1 + int(item.input_gradient) + int(item.weight_gradient)
        total += 1e-5 * passes + 2e-10 * (item.read_bytes + item.write_bytes)
        if item.op is OpClass.CONV:
            speed = (
                40e9 * (item.shape["out"] / (item.shape["out"] + 12.0)) * (item.shape["in"] / (item.shape["in"] + 3))
            )
            total += passes * item.flops / speed
        elif item.op is OpClass.GEMM:
            total += passes * item.flops / 25e9
    return total


def true_peak(work: Workload) -> float:
    state = work.parameter_bytes + work.gradient_bytes + work.optimizer_bytes
    return 1.02 * state + 1.1 * work.activation_bytes + work.transient_bytes + 30e6


def point(work: Workload, *, noise: float = 0.0, number: int = 0, **fields: object) -> CalibrationPoint:
    generator = np.random.default_rng(number)
    step_s = true_step_s(work) * math.exp(noise * generator.normal())
    values = {
        "kind": KIND,
        "model_name": NAME,
        "batch_size": work.batch_size,
        "family": "made",
        "params": {"number": number},
        "peak_bytes": true_peak(work),
        "point_id": f"made-{number}",
    }
    return CalibrationPoint(workload=work, step_s=(step_s, step_s * 1.01), **{**values, **fields})


def points(count: int, *, noise: float = 0.02, seed: int = 0) -> list[CalibrationPoint]:
    """Programs drawn over their sizes, measured on the known device."""
    generator = np.random.default_rng(seed)
    found = []
    for number in range(count):
        work = workload(
            layers=int(generator.integers(1, 6)),
            filters=int(2 ** generator.uniform(2, 6)),
            size=int(generator.integers(8, 40)),
            batch=int(2 ** generator.uniform(3, 7)),
            nodes=int(2 ** generator.uniform(4, 9)),
        )
        found.append(point(work, noise=noise, number=seed * 10_000 + number))
    return found


def allocation(count: int = 1, rows: Sequence[int] = (32,), threads: int = 1) -> Allocation:
    mode = "sync" if len(rows) > 1 else "single"
    return Allocation(kind=KIND, model_name=NAME, count=count, mode=mode, batch_split=tuple(rows), threads=threads)

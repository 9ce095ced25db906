"""Devices, a program and costs of closed form, so that the best way to run it is known beforehand."""

from __future__ import annotations

from scheduler.estimation.values import Basis, Estimate, Interval
from scheduler.offers.candidates import DeviceGroup
from scheduler.offers.recommend import candidates, recommend
from scheduler.workload import OpClass, Operator, Workload

NOW_S = 1_000_000.0


GIB = 2**30


def workload(*, batch=32, epochs=10):
    return Workload(
        batch_size=batch, operators=(Operator(op=OpClass.GEMM, flops=1e6, read_bytes=1e4, write_bytes=1e4),),
        parameters=1000, parameter_bytes=4000, gradient_bytes=4000, optimizer_bytes=8000, activation_bytes=1e5,
        transient_bytes=1e4, data_bytes=1 << 20, fixed_parameters_ops=4, train_rows=1000, evaluated_rows=200,
        epochs=epochs, global_batch_size=batch,
    )  # fmt: skip


def cpus(*sizes, memory_gib=2, quota=None, **more):
    return DeviceGroup(
        kind="cpu", model_name="Xeon", sizes=sizes, memory_bytes=int(memory_gib * GIB), quota=quota, **more
    )


def gpus(*sizes, model="H100", memory_gib=80, **more):
    return DeviceGroup(kind="cuda", model_name=model, sizes=sizes, memory_bytes=int(memory_gib * GIB), **more)


def priced(way, *, work_s=100.0, overhead=0.3, watts=10.0, peak_bytes=GIB // 2, spread=1.2):
    """Amdahl time and linear power: closed forms, so that the best way is known beforehand."""
    count = way.allocation.count
    speed = 8.0 if way.allocation.kind == "cuda" else 1.0
    run_s = work_s / speed * ((1 - overhead) / count + overhead)
    power_w = watts * speed * count
    run = Interval(low=run_s / spread, mid=run_s, high=run_s * spread)
    peak = Interval(low=peak_bytes * 0.8, mid=peak_bytes, high=peak_bytes * 1.1)
    return Estimate(
        allocation=way.allocation, step_s=run.scaled(0.001), run_s=run, peak_bytes=peak, power_w=power_w,
        energy_j=run.scaled(power_w), fits=peak.high <= way.memory_limit_bytes, time_basis=Basis.MODELLED,
        memory_basis=Basis.MODELLED, energy_basis=Basis.ASSUMED,
    )  # fmt: skip


def offer(
    groups, *, deadline_s=None, wish=None, batch=32, start_of=lambda way, run_s: NOW_S, epochs=10, epoch_steps=0, **cost
):
    ways = candidates(workload(batch=batch), groups, wish=wish)
    return recommend(
        ways, estimate_of=lambda way: priced(way, **cost), start_of=start_of, now_s=NOW_S,
        deadline_s=deadline_s, wish=wish, epochs=epochs, epoch_steps=epoch_steps,
    )  # fmt: skip

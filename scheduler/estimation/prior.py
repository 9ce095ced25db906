"""What is assumed of a kind of device before anything is measured on it: rates of a roofline below its data sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist

from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import Coefficients, LinkModel, MemoryModel, PowerModel, RunOverheads, Spread
from scheduler.estimation.device_table import TABLE, DeviceFigures, figures_for
from scheduler.estimation.features import DENSE, LAYOUTS
from scheduler.estimation.precision import AUTO, Precision
from scheduler.estimation.values import Basis

DENSE_SHARE = 0.4
"""Of the peak that dense operators of middling size reach ..."""
PLAIN_SHARE = 0.7
"""... and on a GPU without units for matrices: the smaller peak is the easier one to reach. A step of ResNet-50 with
128 pictures is foretold to take a V100 0.51 s in float32 by it and 0.72 s by the other; published are 0.34 s."""
SMALL_SHARE = 0.1
"""Of the peak that other operators reach in their arithmetic: no matrix units, few registers."""
BANDWIDTH_SHARE = 0.5
OVERHEAD_S = {"cpu": 8e-6, "cuda": 1.8e-5}
"""Per operator and pass: what the framework takes to call it. Of GPUs as on an H200 (docs/benchmarks.md)."""
BUSY_SHARE = 0.7
"""Of a GPU's board power, which programs of the catalog draw while it computes: as on an H200."""
WAITING_FACTOR = 1.5
"""On a GPU's idle power while a program holds it, and its clocks are up: as on an H200."""
PARTS_SHARE = {"state": 1.0, "activations": 1.3, "transient": 1.0, "data": 1.0}
"""Of each part of a workload's memory, what counts at the peak; of activations as float32 keeps them."""
HOST_LINK = LinkModel(latency_s=5e-4, bytes_per_s=1e9, basis=Basis.ASSUMED)
"""Between ranks that add up by Gloo in the memory of a host; copies from a GPU and back to it are not counted."""
PRIOR_SPREAD = 0.9
"""Standard deviation of log time that such figures leave: a factor of 2.5 either way."""


def prior_for(kind: str, model_name: str, table: Sequence[DeviceFigures] = TABLE) -> DeviceModel:
    """Model of a kind of device that nothing was measured on: wide intervals, basis ASSUMED."""
    figures = figures_for(kind, model_name, table)
    cpu, precision = kind == "cpu", figures.computes_in(AUTO)
    activations = PARTS_SHARE["activations"] * precision.kept_share
    return DeviceModel(
        kind=kind,
        model_name=model_name,
        precision=precision,
        usual=precision,
        members=(coefficients(figures),),
        spread=Spread(floor=PRIOR_SPREAD, near=NORMAL_SCORES, far=NORMAL_SCORES),
        memory=MemoryModel(
            # libraries keep scratch space on a GPU
            coefficients=PARTS_SHARE | {"activations": activations, "base": 60e6 if cpu else 400e6},
            low_ratio=0.6 if cpu else 0.4,
            high_ratio=1.6 if cpu else 2.2,
            basis=Basis.ASSUMED,
            reads=cpu,
        ),
        power=_power(figures),
        link=HOST_LINK if cpu else LinkModel(latency_s=5e-5, bytes_per_s=2e10, basis=Basis.ASSUMED),
        overheads=RunOverheads(
            start_s=1.6 if cpu else 5.0,
            end_s=1.6,
            rank_start_s=0.7,
            checkpoint_s=0.003,  # the state is copied in memory; writing it is off the run's path
            checkpoint_bytes_per_s=1e9,
            basis=Basis.ASSUMED,
        ),
        contention=0.1 if cpu else 0.0,
        basis=Basis.ASSUMED,
    )


def by_host(model: DeviceModel, why: str = "") -> DeviceModel:
    """The model for ranks that add up through the memory of their hosts; what was measured, was measured as they do."""
    return model if model.link.basis is not Basis.ASSUMED else replace(model, host_link=HOST_LINK, host_why=why)


def _power(figures: DeviceFigures) -> PowerModel:
    core = PowerModel(idle_w=figures.idle_w, busy_w=figures.busy_w, basis=Basis.ASSUMED, source=figures.source)
    if figures.kind == "cpu":
        return core
    waiting_w = WAITING_FACTOR * figures.idle_w
    return replace(core, waiting_w=waiting_w, busy_w=max(waiting_w, BUSY_SHARE * figures.busy_w))


def dense_flops_per_s(figures: DeviceFigures, precision: Precision) -> float:
    """What dense operators of middling size are assumed to reach."""
    plain = figures.kind != "cpu" and precision not in figures.speeds.keys() - {Precision.FLOAT32}
    return (PLAIN_SHARE if plain else DENSE_SHARE) * figures.speed(precision)


def coefficients(figures: DeviceFigures) -> Coefficients:
    """Log seconds per FLOP, byte and piece at the middle of the shapes; nothing depends on the shape yet."""
    flop_s = 1.0 / dense_flops_per_s(figures, figures.computes_in(AUTO))
    small_flop_s = 1.0 / (SMALL_SHARE * figures.flops_per_s)
    byte_s = 1.0 / (BANDWIDTH_SHARE * figures.bytes_per_s)
    overhead_s = OVERHEAD_S.get(figures.kind, 1e-5)
    rates = {"operators": overhead_s, "optimizer_tensors": overhead_s, "step": 50 * overhead_s}
    found = {}
    for name, layout in LAYOUTS.items():
        if name in DENSE:
            rate = flop_s
        elif name.endswith("_flops"):
            rate = small_flop_s
        else:
            rate = rates.get(name, byte_s)
        found[name] = (math.log(rate), *([0.0] * (len(layout.columns) - 1)))
    return found


def _normal_scores(count: int = 199) -> tuple[float, ...]:
    """Quantiles of a normal distribution: what stands for held-out scores where there are none."""
    normal = NormalDist()
    return tuple(normal.inv_cdf(number / (count + 1)) for number in range(1, count + 1))


NORMAL_SCORES = _normal_scores()

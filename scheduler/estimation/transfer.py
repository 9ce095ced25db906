"""A calibration of one kind of device as the prior of another that nobody has measured. Pure.

How far the operators of each shape are from the data sheet is taken over; the level is that of the other device's own
data sheet. Ranges are widened by what one core may differ from another by, beyond their sheets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import NormalDist

from scheduler.estimation.calibration import LEAST_HELD_OUT
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import (
    POWER_HALF_BETWEEN,
    Coefficients,
    MemoryModel,
    PowerModel,
    Spread,
    Transfer,
)
from scheduler.estimation.device_table import figures_for
from scheduler.estimation.prior import prior_for
from scheduler.estimation.values import Basis

ALIKE = "cpu"
"""Of this kind any stands in for any other; GPUs lie further apart, and do for those of their generation."""
BETWEEN_DEVICES = 0.5
"""Standard deviation of the logarithm of a step's time from core to core: a factor of 1.9 either way, 8 times in 10.

Assumed, since two calibrations hardly show it: two cores of one name were a factor of 2 apart, as it has one expect.
Parts, each taken as uniform over what is in use and added in quadrature: clock from 2 to 5 GHz (0.26), vectors of half
or twice the width where arithmetic counts (0.3), a neighbour on the same core or none (0.2), caches and memory of half
or twice the speed where traffic counts (0.2).
"""
BETWEEN_LIKE = 0.2
"""The same of GPUs of one model: 48 programs on two H200, in two machines, were 5 % apart in the middle, 31 % at the
90th percentile."""
BETWEEN_KIN = 0.3
"""The same of GPUs of one generation: by an H200's calibration 124 programs on an H100 were off by a factor of 1.16, by
the H100's calibration 181 on the H200 by 1.19; ranges with 0.2 held 95 and 91 %. One pair hardly shows how far others
are apart."""
PEAKS_BETWEEN = 1.1
"""Factor on either end of peak memory: the same program and library allocate alike but for scratch space."""


def nearest(known: Sequence[DeviceModel], kind: str, model_name: str) -> DeviceModel | None:
    """Of the calibrations in `known` the one to go by: the nearest data sheet, then most points.

    None where there is none of this type, or only of too few points to tell their own error; GPUs go by one of the same
    entry of the device table or of the same generation.
    """
    own = figures_for(kind, model_name)

    def stands_in(model: DeviceModel) -> bool:
        other = figures_for(kind, model.model_name)
        return kind == ALIKE or other == own or bool(own.generation and own.generation == other.generation)

    def likeness(model: DeviceModel) -> tuple[bool, float, int]:
        other = figures_for(kind, model.model_name)
        apart = math.hypot(math.log(other.flops_per_s / own.flops_per_s), math.log(other.bytes_per_s / own.bytes_per_s))
        return other == own, -apart, model.n_points

    usable = [model for model in known if model.kind == kind and model.n_points >= LEAST_HELD_OUT and stands_in(model)]
    return max(usable, key=likeness, default=None)


def transferred(source: DeviceModel, prior: DeviceModel, digest: str = "", middle: float = 1.0) -> DeviceModel:
    """`prior`, with step times and memory from the calibration `source`; links and starts stay assumed.

    So does power, but for that of the same GPU: a core's was no reading of its own. `middle`: how many times as long as
    on `source` steps take on the middle of the machines of its kind that are known.
    """
    between = _between(source, prior)
    return replace(
        prior,
        power=_power(source.power, prior.power) if between == BETWEEN_LIKE else prior.power,
        members=_moved(source, prior, math.log(middle)),
        corrector=source.corrector,
        spread=_widened(source.spread, between),
        memory=_memory(source.memory),
        basis=Basis.MODELLED,
        fingerprints=source.fingerprints,
        noise=source.noise,
        transferred=Transfer(model_name=source.model_name, n_points=source.n_points, digest=digest),
    )


def _between(source: DeviceModel, prior: DeviceModel) -> float:
    if source.kind == ALIKE:
        return BETWEEN_DEVICES
    here, there = (figures_for(model.kind, model.model_name) for model in (prior, source))
    return BETWEEN_LIKE if here == there else BETWEEN_KIN


def _moved(source: DeviceModel, prior: DeviceModel, log_level: float) -> tuple[Coefficients, ...]:
    """The ensemble, moved by `log_level`, and each group of terms by as much as the data sheets of both differ."""
    here, there = prior.members[0], prior_for(source.kind, source.model_name).members[0]
    return tuple(
        {name: (row[0] + log_level + here[name][0] - there[name][0], *row[1:]) for name, row in member.items()}
        for member in source.members
    )


def _power(source: PowerModel, prior: PowerModel) -> PowerModel:
    """What was read of another GPU of the model: programs are as far off as there, and so is this GPU from that one."""
    if source.basis is not Basis.MEASURED:
        return prior
    half = source.held_out_half
    wider = None if half is None else math.hypot(half, POWER_HALF_BETWEEN)
    return replace(source, basis=Basis.MODELLED, held_out_half=wider)


def _memory(source: MemoryModel) -> MemoryModel:
    return replace(
        source,
        low_ratio=source.low_ratio / PEAKS_BETWEEN,
        high_ratio=source.high_ratio * PEAKS_BETWEEN,
        basis=Basis.MODELLED,
    )


def _widened(spread: Spread, between: float) -> Spread:
    """Held-out errors on the device that was measured, and the difference between devices, rank by rank."""
    floor = math.hypot(spread.floor, between)
    return replace(
        spread,
        floor=floor,
        near=_wider(spread.near, spread.floor, between),
        far=_wider(spread.far, spread.floor, between),
    )


@lru_cache(maxsize=256)  # every offer asks for the same few
def _wider(scores: tuple[float, ...], floor: float, between: float) -> tuple[float, ...]:
    """Scores at the wider floor; never nearer to zero than they were, so that no range gets narrower."""
    normal, found = NormalDist(), []
    for number, score in enumerate(sorted(scores), 1):
        apart = between * normal.inv_cdf(number / (len(scores) + 1))
        side = math.copysign(1.0, apart)
        own = max(0.0, side * score)
        found.append(side * max(own, math.hypot(own * floor, apart) / math.hypot(floor, between)))
    return tuple(sorted(found))

"""Where a model is cut into stages, and into how many micro-batches a batch goes. Pure; standard library only.

A model is a chain of blocks, each of which only hears its neighbours. K stages of consecutive blocks and M
micro-batches take, with f_j and b_j the seconds of stage j for one micro-batch (GPipe, Huang et al. 2019,
arXiv:1811.06965):

    step = sum_j f_j + (M - 1) max_j f_j + sum_j b_j + (M - 1) max_j b_j

A block's time is fixed + rows x per row: the fixed part is paid once per micro-batch, which is why micro-batches that
are too small cost more than the bubble that they save. On unlike devices it is that of its stage's device
(`worker.stage_devices`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from typing import Any

from worker.stage_devices import StageDevice
from worker.words import counted

STATE_COPIES = 4.0
"""Weights, gradients and two moments of the optimizer, in bytes of the weights."""
MOST_PIECES = 2_000
"""Of a model, that a workload tells of."""
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of micro-batches that are compared."""
GPIPE, ONE_F_ONE_B = "gpipe", "1f1b"
WAYS = ((GPIPE, False), (ONE_F_ONE_B, False), (GPIPE, True), (ONE_F_ONE_B, True))
"""(schedule, recomputation), from the one that costs least time to the one that takes least memory."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A piece of a model: what one forward and one backward pass of it take."""

    name: str
    forward_s: float
    """Per row."""
    backward_s: float
    """Per row."""
    fixed_forward_s: float = 0.0
    """Per pass, whatever its rows."""
    fixed_backward_s: float = 0.0
    parameter_bytes: int = 0
    activation_bytes: float = 0.0
    """Per row: kept for the backward pass."""
    output_bytes: float = 0.0
    """Per row: sent to the next block."""

    def __post_init__(self) -> None:
        """Refuse what is no figure."""
        for name, value in asdict(self).items():
            if name != "name" and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"block {self.name}: {name} is {value}")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a person fixes; None leaves it to the plan."""

    micro_batches: int | None = None
    schedule: str | None = None
    recompute: bool | None = None


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """Stages of a model and the way a batch passes them."""

    ends: tuple[int, ...]
    """Per stage, the number of the block after its last."""
    micro_batches: int
    rows: int
    """Of the largest micro-batch."""
    schedule: str
    recompute: bool
    step_s: float
    """Forward and backward passes of a batch, without the update."""
    stage_bytes: tuple[float, ...]
    """Peak memory per stage."""
    fits: bool

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """(first block, block after the last) of each stage."""
        return tuple(zip((0, *self.ends[:-1]), self.ends, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> StagePlan:
        """Inverse of `to_dict`. Raises `ValueError` for what is no plan."""
        try:
            lists = {name: tuple(body[name]) for name in ("ends", "stage_bytes")}
            return StagePlan(**{**body, **lists})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a plan of stages: {error}") from error


def plan_stages(
    blocks: Sequence[Block],
    stages: int,
    batch: int,
    *,
    devices: Sequence[StageDevice] = (),
    wanted: Wanted | None = None,
    message_s: float = 0.0,
) -> StagePlan:
    """The fastest cut and number of micro-batches of the first way in `WAYS` that fits the memory of each stage.

    `devices`: of the stages; none given: alike, and any memory will do. Where nothing fits, the way that exceeds a
    stage's memory least, with `fits` false. `message_s` is what handing one micro-batch on takes. Raises `ValueError`
    for fewer blocks than stages, or a schedule that does not exist.
    """
    wanted, devices = wanted or Wanted(), devices or [StageDevice()] * stages
    ways = [way for way in WAYS if wanted.schedule in (None, way[0]) and wanted.recompute in (None, way[1])]
    if not ways:
        raise ValueError(f"no schedule {wanted.schedule!r}; there are {GPIPE} and {ONE_F_ONE_B}")
    counts = [wanted.micro_batches] if wanted.micro_batches else [count for count in COUNTS if count <= batch]
    found: list[StagePlan] = []
    for schedule, recompute in ways:
        tried = list(_tries(blocks, devices, batch, counts, (schedule, recompute), message_s))
        fitting = [plan for plan in tried if plan.fits]
        if fitting:
            return min(fitting, key=lambda plan: (plan.step_s, plan.micro_batches))
        found += tried
    limits = [device.memory_bytes for device in devices]
    return min(found, key=lambda plan: max(size - most for size, most in zip(plan.stage_bytes, limits, strict=True)))


def _tries(
    blocks: Sequence[Block],
    devices: Sequence[StageDevice],
    batch: int,
    counts: Sequence[int],
    way: tuple[str, bool],
    message_s: float,
) -> Iterator[StagePlan]:
    """One plan per number of micro-batches."""
    factors, stages = [device.factor for device in devices], len(devices)
    for count in sorted({-(-batch // -(-batch // wish)) for wish in counts}):
        rows = -(-batch // count)
        plan = StagePlan(
            ends=(), micro_batches=count, rows=rows, schedule=way[0], recompute=way[1],
            step_s=0.0, stage_bytes=(), fits=True,
        )  # fmt: skip

        def size(stage: int, first: int, last: int, plan: StagePlan = plan) -> float:
            return stage_bytes(blocks, (first, last), plan, stage, stages)

        alone = [sum(block_s(block, rows, way[1])) for block in blocks]
        costs = [[factor * seconds for seconds in alone] for factor in factors]
        ends = cut(costs, lambda stage, first, last: size(stage, first, last) <= devices[stage].memory_bytes)
        fits = ends is not None
        ends = ends or cut(costs) or ()
        sizes = tuple(size(stage, *part) for stage, part in enumerate(zip((0, *ends[:-1]), ends, strict=True)))
        plan = replace(plan, ends=ends, stage_bytes=sizes, fits=fits)
        yield replace(plan, step_s=gpipe_s(stage_times(blocks, plan, factors), count, message_s))


def cut(
    costs: Sequence[Sequence[float]], fits: Callable[[int, int, int], bool] | None = None
) -> tuple[int, ...] | None:
    """Ends of consecutive parts, one per stage, whose costliest is as cheap as can be; None if no cut fits.

    `costs[stage][block]`: what a block costs on a stage; `fits(stage, first, end)`: whether a stage may hold those
    blocks. Exact, by dynamic programming over the number of blocks in the first s stages: best[s][j] = min over i of
    max(best[s - 1][i], cost of s(i..j)). Of equal cuts the one whose last stages are the shortest. Raises `ValueError`
    for fewer blocks than stages.
    """
    stages, number = len(costs), len(costs[0]) if costs else 0
    if not 1 <= stages <= number:
        raise ValueError(f"{counted(number, 'block')} cannot make {counted(stages, 'stage')}")
    best = {0: 0.0}
    came: list[dict[int, int]] = []
    for stage in range(stages):
        sums = list(accumulate(costs[stage], initial=0.0))
        following: dict[int, float] = {}
        origin: dict[int, int] = {}
        for end in range(stage + 1, number - (stages - stage - 1) + 1):
            for first, before in best.items():
                if first >= end or (fits is not None and not fits(stage, first, end)):
                    continue
                worst = max(before, sums[end] - sums[first])
                if end not in following or worst <= following[end]:
                    following[end], origin[end] = worst, first
        best = following
        came.append(origin)
    if number not in best:
        return None
    ends = [number]
    for origin in reversed(came[1:]):
        ends.append(origin[ends[-1]])
    return tuple(reversed(ends))


def block_s(block: Block, rows: float, recompute: bool) -> tuple[float, float]:
    """(forward, backward) seconds of a block on so many rows; recomputing is one more forward pass."""
    forward_s = block.fixed_forward_s + rows * block.forward_s
    return forward_s, block.fixed_backward_s + rows * block.backward_s + (forward_s if recompute else 0.0)


def stage_times(
    blocks: Sequence[Block], plan: StagePlan, factors: Sequence[float] = ()
) -> tuple[tuple[float, float], ...]:
    """(forward, backward) seconds of each stage for one micro-batch; `factors`: of each stage's device (none: 1)."""
    times = [block_s(block, plan.rows, plan.recompute) for block in blocks]
    return tuple(
        (factor * sum(f for f, _ in times[i:j]), factor * sum(b for _, b in times[i:j]))
        for factor, (i, j) in zip(factors or [1.0] * len(plan.ends), plan.bounds, strict=True)
    )


def gpipe_s(times: Sequence[tuple[float, float]], micro_batches: int, message_s: float = 0.0) -> float:
    """Seconds of a step by the formula above; each hand-over of a micro-batch adds `message_s` to its sender."""
    total = 0.0
    for passes in zip(*times, strict=True):
        handed = [seconds + (message_s if len(times) > 1 else 0.0) for seconds in passes]
        total += sum(handed) + (micro_batches - 1) * max(handed)
    return total


def stage_bytes(blocks: Sequence[Block], part: tuple[int, int], plan: StagePlan, stage: int, stages: int) -> float:
    """Peak memory of a stage: state of its weights, what waits for the backward pass, and buffers of its neighbours.

    GPipe keeps all micro-batches, 1F1B as many as there are stages from here to the last (PipeDream-flush,
    Narayanan et al. 2021, arXiv:2006.09503). Recomputation keeps what came in, and all of one micro-batch.
    """
    first, end = part
    held = blocks[first:end]
    kept = sum(block.activation_bytes for block in held) * plan.rows
    came_in = (blocks[first - 1].output_bytes if first else 0.0) * plan.rows
    goes_out = (blocks[end - 1].output_bytes if end < len(blocks) else 0.0) * plan.rows
    waiting = plan.micro_batches if plan.schedule == GPIPE else min(plan.micro_batches, stages - stage)
    lives = kept + waiting * goes_out if plan.recompute else waiting * kept
    buffers = plan.micro_batches * (came_in + goes_out)
    return STATE_COPIES * sum(block.parameter_bytes for block in held) + lives + buffers

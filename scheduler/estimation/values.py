"""Values of the estimator: an interval, its basis, and the estimate of one job on one allocation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import NormalDist
from typing import Any

from scheduler.kinds import Parts, checked_parts


class Basis(StrEnum):
    """Where a figure comes from. Shown with every figure."""

    MEASURED = "measured"
    """On this device kind, with this program."""
    MODELLED = "modelled"
    """From a model fitted to measurements on this device kind, or on another core whose name is told with it."""
    ASSUMED = "assumed"
    """From a table."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A figure and the range that holds it with probability `level`."""

    low: float
    mid: float
    high: float
    level: float = 0.8

    def __post_init__(self) -> None:
        """Refuse what is no range."""
        if not 0 <= self.low <= self.mid <= self.high:
            raise ValueError(f"not a range: {self.low}, {self.mid}, {self.high}")

    def chance(self, most: float) -> float:
        """Probability that the figure is `most` at most: its logarithm is normal on either side of the middle."""
        if most <= 0 or self.mid <= 0:
            return float(most >= self.mid)
        side = self.high if most > self.mid else self.low
        if side <= 0 or side == self.mid:
            return float(most >= self.mid)
        spread = abs(math.log(side / self.mid)) / NormalDist().inv_cdf((1.0 + self.level) / 2.0)
        return NormalDist().cdf(math.log(most / self.mid) / spread)

    def plus(self, other: Interval) -> Interval:
        """Both, one after the other, by the sum of their ends: it holds as often as they do where both are off the same
        way at once, and more often else."""
        ends = (self.low + other.low, self.mid + other.mid, self.high + other.high)
        return Interval(low=ends[0], mid=ends[1], high=ends[2], level=self.level)

    def scaled(self, factor: float) -> Interval:
        """All three times `factor`."""
        return Interval(low=self.low * factor, mid=self.mid * factor, high=self.high * factor, level=self.level)

    def times(self, factor: float, half: float) -> Interval:
        """Times a factor that is doubtful by itself: `half` of the range of its logarithm, at the same level.

        Doubts that have nothing to do with each other add up as squares of logarithms.
        """
        if not self.low:
            return Interval(low=0.0, mid=self.mid * factor, high=self.high * factor * math.exp(half), level=self.level)
        low, high = (math.hypot(math.log(end / self.mid), half) for end in (self.low, self.high))
        mid = self.mid * factor
        return Interval(low=mid * math.exp(-low), mid=mid, high=mid * math.exp(high), level=self.level)


@dataclass(frozen=True, kw_only=True)
class Allocation:
    """Devices that a job could run on, and how its batch is shared out."""

    kind: str
    """`cpu` or `cuda`."""
    model_name: str
    """Kind of device as its maker names it; with `kind` the key of a fitted `DeviceModel`."""
    count: int
    mode: str
    """`single` or `replicated` (one process drives all), or one rank per device: `sync`, `async`, `pipeline`, ..."""
    batch_split: tuple[int, ...]
    """Rows per rank of a step."""
    threads: int = 1
    """CPU threads per rank."""
    parts: Parts = ()
    """Of unlike devices: (model, devices) each, in the order of the ranks; `model_name` names the mixture."""
    stages: int = field(default=0, compare=False)
    """Into which each pipeline cuts the model; 0: none does, or as `batch_split` tells."""
    most_on_node: int = field(default=0, compare=False)
    """Of its devices those on any one node, at most; 0: all of them."""

    def __post_init__(self) -> None:
        """Refuse what is no mixture; plain values hold lists."""
        object.__setattr__(self, "parts", checked_parts(self.parts, self.count) if self.parts else ())

    @property
    def by_model(self) -> Parts:
        """(model, devices) of each, whether it is a mixture or not."""
        return self.parts or ((self.model_name, self.count),)

    @property
    def ranks_together(self) -> int:
        """Of its ranks those that share a node, at most: what slows a rank down is what is beside it there."""
        ranks = len(self.batch_split)
        return min(self.most_on_node or ranks, ranks)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Cost of one run on one allocation."""

    allocation: Allocation
    step_s: Interval
    run_s: Interval
    """From the start of the ranks to the results, without waiting in the queue."""
    peak_bytes: Interval
    """Per rank, above an idle process that has loaded torch."""
    power_w: float
    """All devices of the allocation while it runs, idle share included."""
    energy_j: Interval
    fits: bool
    """The upper end of `peak_bytes` is below the memory of a device."""
    time_basis: Basis
    memory_basis: Basis
    energy_basis: Basis
    power_half: float = 0.0
    """Half of the range of log(true / `power_w`), at the level of `energy_j`, which holds it."""
    epoch_s: float = 0.0
    """Of the middle of `run_s`, what each epoch takes, checkpoints aside; 0: not known."""
    start_s: float = 0.0
    """Of the middle of `run_s`, until the first step; 0: not known."""
    note: str = ""
    """In words, what the figures rest on: number of calibration points, probe steps, finished jobs."""

    def of_share(self, share: float) -> Estimate:
        """Of so much of the run, above 0: steps as they are, time and energy in proportion."""
        if share == 1.0:
            return self
        return replace(self, run_s=self.run_s.scaled(share), energy_j=self.energy_j.scaled(share))

    def of_epochs(self, made: int, planned: int) -> Estimate:
        """Of a run that ended after `made` of its `planned` epochs: its time and energy are without the others.

        Raises `ValueError` where nobody knows what an epoch takes.
        """
        if not self.epoch_s:
            raise ValueError("this estimate does not say what an epoch takes")
        less_s, step, run = (planned - made) * self.epoch_s, self.step_s, self.run_s
        mid = max(0.0, run.mid - less_s)
        low, high = (
            max(0.0, end - less_s * of_step / step.mid) for end, of_step in ((run.low, step.low), (run.high, step.high))
        )
        run_s = Interval(low=min(low, mid), mid=mid, high=max(mid, high), level=run.level)
        return replace(self, run_s=run_s, energy_j=run_s.times(self.power_w, self.power_half))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return values_of(self)


_PLAIN = frozenset({str, float, int, bool, type(None)})


def values_of(record: Any) -> dict[str, Any]:
    """Fields of a frozen dataclass by name, of those inside as well: `asdict` without copies of what cannot change."""
    return {name: value if type(value) in _PLAIN else _value(value) for name, value in vars(record).items()}


def _value(value: Any) -> Any:
    if value is None or isinstance(value, (str, float, int)):
        return value
    if isinstance(value, tuple):
        return value if _PLAIN.issuperset(map(type, value)) else tuple(map(_value, value))
    return values_of(value)

"""What a `DeviceModel` is made of: ranges, memory, power, links, times beside the steps, and what jobs teach."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.estimation.precision import Precision
from scheduler.estimation.values import Basis

POOL_TABLE = "the pool's power table"
"""Source of watts that an admin entered."""
POWER_HALF = {Basis.MEASURED: 0.25, Basis.MODELLED: 0.4, Basis.ASSUMED: math.log(1.75)}
"""How far watts are off where nothing else tells it, as logarithms, 8 times out of 10: 1.6 times the mean error. On the
GPU that was measured it was 16 % for held-out programs, and 47 % by one figure for all of them, such as a table has."""
POWER_HALF_BETWEEN = math.sqrt(POWER_HALF[Basis.MODELLED] ** 2 - POWER_HALF[Basis.MEASURED] ** 2)
"""The part of a modelled power's doubt that is of the device: how far another one of its model draws more or less."""
Coefficients = Mapping[str, tuple[float, ...]]
"""By group of terms (`features.LAYOUTS`): w of amount * exp(w . phi), in log seconds per FLOP, byte or piece."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How far predictions were from what was held out.

    A score is log(measured / predicted) / scale, with scale = sqrt(floor^2 + disagreement^2) of the ensemble.
    """

    floor: float
    near: tuple[float, ...] = ()
    """Scores of held-out architectures whose like was in the training part, rising."""
    far: tuple[float, ...] = ()
    """Of programs unlike all others, by held-out groups of programs: on both sides alike, rising."""
    near_distance: float = 0.0
    """Up to this distance from the nearest calibration point a program counts as near."""


@dataclass(frozen=True, kw_only=True)
class PeakLessons:
    """Peaks of finished jobs beside what was added up for them, one entry per job; never part of a fit."""

    makeups: tuple[tuple[float, ...], ...] = ()
    """What each peak consists of, see `scheduler.estimation.peaks`."""
    log_ratios: tuple[float, ...] = ()
    """log(measured / added up)."""
    ran_out: tuple[bool, ...] = ()
    """Of jobs that ran out of memory: they would have taken more than that."""
    n_left_out: int = 0
    """Jobs so far off that they say more about themselves than about what others take."""


@dataclass(frozen=True, kw_only=True)
class MemoryModel:
    """Peak above the idle process = sum of coefficients x bytes of each part of the workload."""

    coefficients: Mapping[str, float]
    low_ratio: float
    high_ratio: float
    """Held-out measured / predicted: lower end, and a careful upper end."""
    basis: Basis
    n_points: int = 0
    reads: bool = True
    """The rows are read in this memory: not so that of a GPU."""
    lessons: PeakLessons = field(default_factory=PeakLessons)
    """What finished jobs teach of steps."""
    reading: PeakLessons = field(default_factory=PeakLessons)
    """What those whose peak was the reading of their rows teach of that."""


@dataclass(frozen=True, kw_only=True)
class PowerModel:
    """Power of one device (a core, a GPU)."""

    idle_w: float
    """Nothing runs on it."""
    busy_w: float
    """It computes all the time."""
    basis: Basis
    """Of all but `idle_w`."""
    source: str = ""
    idle_basis: Basis = Basis.ASSUMED
    """Calibrations read devices at work alone: what they do not know is of a table, whatever `basis` says."""
    waiting_w: float | None = None
    """A program holds it, and has nothing for it to compute; None: as busy, like a core, which runs the host's part."""
    held_out_half: float | None = None
    """Half of the range of log(true / told) that holds 8 of 10 readings of programs left out of the fit; None: too few
    were read, or it is of before this was kept."""

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> PowerModel:
        """From plain values; those of before it was kept have no basis of idle watts."""
        told = {**body, "basis": Basis(body["basis"]), "idle_basis": Basis(body.get("idle_basis", Basis.ASSUMED))}
        return PowerModel(**told)

    @property
    def half(self) -> float:
        """Half of the range of log(true / told) of a program's watts, at the level of an estimate."""
        return POWER_HALF[self.basis] if self.held_out_half is None else self.held_out_half

    def at(self, work_share: float) -> float:
        """Watts while it computes for so much of the time."""
        if self.waiting_w is None:
            return self.busy_w
        return self.waiting_w + (self.busy_w - self.waiting_w) * work_share


@dataclass(frozen=True, kw_only=True)
class LinkModel:
    """Between ranks of one node, or of several: an allreduce of two takes latency_s + bytes / bytes_per_s."""

    latency_s: float
    """Of its two messages, one after the other."""
    bytes_per_s: float
    basis: Basis
    n_points: int = 0


@dataclass(frozen=True, kw_only=True)
class RunOverheads:
    """What a run takes besides its steps."""

    start_s: float
    """From the start of the ranks to the first step, reading of the rows left out: imports, model, try."""
    end_s: float
    """Results, analysis and export after the last epoch, without predicting the rows."""
    rank_start_s: float
    """More of it per further rank on the same node: they meet, and load from its disk on its cores."""
    checkpoint_s: float
    """Of one checkpoint, besides its bytes."""
    checkpoint_bytes_per_s: float
    basis: Basis
    n_runs: int = 0
    """Whose start and whose end were seen."""
    load_bytes_per_s: float = 6e6
    """Rows read and made ready, by the bytes that they then take in memory (`Workload.dataset_bytes`)."""
    words_times: float = 1.0
    """So many times as long as modelled (`Workload.words_s`) the words of texts take here."""
    n_words: int = 0
    """Runs that showed it; 0: it is as modelled."""
    meet_s: float = 0.5
    """More of it where ranks lie on several nodes, however near: all nodes have to be there before any of them starts
    its ranks, and they look for each other a few times a second."""
    n_met: int = 0
    """Runs that showed it; 0: it is assumed."""
    slow_starts: Mapping[str, float] = field(default_factory=dict)
    """Node -> how many times as long as predicted it takes there to the first step; only nodes where it is longer."""

    @property
    def slowest_start(self) -> float:
        """Factor on the start at the node where it takes longest."""
        return max(self.slow_starts.values(), default=1.0)


@dataclass(frozen=True, kw_only=True)
class Correction:
    """What finished jobs teach: factor on step times, shrunk towards 1."""

    factor: float = 1.0
    n_jobs: int = 0
    n_left_out: int = 0
    """Jobs so far off that they say more about themselves than about the device."""
    n_other: int = 0
    """Jobs in another precision by which it is corrected as well, with less weight."""


@dataclass(frozen=True, kw_only=True)
class NodePace:
    """How long a node's devices take, beside those of the same name on other nodes."""

    factor: float
    """1.4: so many times as long. By its finished jobs, shrunk towards 1."""
    low: float
    high: float
    """The range, 99 times out of 100."""
    n_jobs: int
    takes_work: bool = True
    """Whether something may run there now: ranges hold what does."""


@dataclass(frozen=True, kw_only=True)
class Corrector:
    """A small Gaussian process over summaries of a workload, on what the sum over operators leaves unexplained.

    Kept only where it lowers the held-out error: log factor = sum_i alpha_i exp(-|x - x_i|^2 / (2 length^2)).
    """

    inputs: tuple[tuple[float, ...], ...]
    alpha: tuple[float, ...]
    length: float


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """Whose calibration stands in for one that this kind of device does not have."""

    model_name: str
    """Of the device that was measured."""
    n_points: int
    digest: str = ""
    """Of the points: distinguishes one calibration from the next."""


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Products in another precision than any that was measured stand for."""

    precision: Precision
    """That was measured."""
    members: tuple[Coefficients, ...]
    """As they were fitted in that."""

"""A `Run` that hands batches to train.py and watches the clock and the memory."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor, nn

from worker.devices import index_of
from worker.power import EnergyMeter
from worker.quiet import Gauge
from worker.runtime.collective import broadcast_bytes
from worker.runtime.data import Dataset, Part
from worker.runtime.device import settled_s
from worker.runtime.inspection.standin import Enough, StandIn

WARM_UP = 2
VISIT_S = 0.3
MOST_STEPS = 200
BATCHES = 16
REPEATED_BYTES = 32 << 20
EVALUATED_ROWS, EVALUATED_BYTES = 1024, 8 << 20
EVALUATION_S = 2.0
PASSES = 3
BURST_S = 0.05
"""Steps between two looks at whether the host is quiet."""
LEAST_OF_MEAN = 0.25
"""A row takes at least this share of the mean: below it the two sizes differ by noise."""


class MeasureRun(StandIn):
    """Hands batches to train.py, forever or until enough steps are timed."""

    def __init__(
        self, *arguments: Any, steps: int, visits: int, budget_s: float, gauge: Gauge | None = None, **settings: Any
    ) -> None:
        super().__init__(*arguments, **settings)
        self.least_steps, self.visits, self.budget_s = steps, visits, budget_s
        self.gauge = gauge if self.device.type == "cpu" and self.world_size == 1 else None
        """Ranks that wait for each other cannot leave out steps one by one; a GPU does not share its cores."""
        self.loud_s = 0.0
        """Seconds that went by because the host was not quiet."""
        self.steps = 0
        self.warmup_s: list[float] = []
        self.step_s: list[float] = []
        self.data_s: list[float] = []
        self.net: nn.Module | None = None
        self.dataset: Dataset | None = None
        self.loaded_s = self.load_once_s = 0.0
        self.power_w: float | None = None
        self._meter = _meter_of(self.device)
        """A processor package counts more than this program: who watches from outside knows what it draws anyway."""
        self._began_s = time.perf_counter()

    def place(self, net: nn.Module, dataset: Dataset) -> nn.Module:
        """As in a run."""
        first_s = time.perf_counter() - self._began_s
        self.loaded_s = self._reading_s(first_s)
        self.load_once_s = first_s - self.loaded_s
        self.net, self.dataset = super().place(net, dataset), dataset
        reset_peak(self.device)
        return self.net

    def start_weights(self, net: nn.Module) -> str:
        """A step takes as long with any weights."""
        return ""

    def _reading_s(self, first_s: float) -> float:
        """Seconds that the few rows take alone: the first time imports, the start of a GPU and the model's own making
        are in it, which many rows do not multiply. What takes longer than a probe may, or cannot be read again, counts
        as it was."""
        load = getattr(sys.modules.get("data"), "load", None)
        if first_s > self.budget_s or not callable(load):
            return first_s
        began_s = time.perf_counter()
        with suppress(Exception):
            load(self.spec, self.data_folder)
            return min(first_s, time.perf_counter() - began_s)
        return first_s

    def batches(self, part: Part) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        """Batches as in a run, epoch after epoch; raises `Enough` after the last visit."""
        endless = self._endless(_whole_batches(part, self.batch_size))
        for _ in range(WARM_UP):
            data_s, batch = self._next(endless)
            began_s = self._now()
            yield batch
            self.warmup_s.append(data_s + self._now() - began_s)
        self.steps = self._agreed_steps()
        self._steps_begin()
        for _ in range(self.visits):
            taken: list[float] = []
            waited: list[float] = []
            visit_s = self._now()
            while len(taken) < self.steps:
                began_s = self._quiet_s()
                burst: list[tuple[float, float]] = []
                for _ in range(self._burst(self.steps - len(taken))):
                    burst.append((yield from self._step(endless)))
                if self._was_quiet(began_s):
                    taken += [step_s for step_s, _ in burst]
                    waited += [data_s for _, data_s in burst]
            whole_s = (self._now() - visit_s) / self.steps
            self.step_s.append(whole_s if self._asynchronous else median(taken) + fmean(waited))
            self.data_s += waited
        self._steps_end()
        raise Enough

    def _step(self, batches: Iterator[Any]) -> Generator[Any, None, tuple[float, float]]:
        """Hands out a batch; seconds of the step, and until its batch was there."""
        data_s, batch = self._next(batches)
        began_s = time.perf_counter() if self._asynchronous else self._now()
        yield batch
        return (time.perf_counter() if self._asynchronous else self._now()) - began_s, data_s

    def _burst(self, left: int) -> int:
        """Steps until the next look."""
        return left if self.gauge is None else min(left, max(1, int(BURST_S / max(self.warmup_s[-1], 1e-6))))

    def _quiet_s(self) -> float:
        """The moment from which on the host is quiet, or patience is at its end. No power is counted until then."""
        asked_s = time.perf_counter()
        if self._patient(asked_s) and self._is_loud():
            self._steps_end()
            while self._patient(asked_s) and self._is_loud():
                pass
            self._steps_begin()
            self.loud_s += time.perf_counter() - asked_s
        return time.perf_counter()

    def _was_quiet(self, began_s: float) -> bool:
        """Whether steps since then count; they always do where patience is at its end."""
        if not self._patient(began_s) or not self._is_loud():
            return True
        self.loud_s += time.perf_counter() - began_s
        return False

    def _is_loud(self) -> bool:
        """By a look now."""
        return self.gauge is not None and not self.gauge.is_quiet()

    def _patient(self, since_s: float) -> bool:
        """Whether what went by since then may be lost on a loud host."""
        return self.gauge is not None and self.loud_s + time.perf_counter() - since_s < self.gauge.patience_s

    @property
    def _asynchronous(self) -> bool:
        """A GPU works while Python prepares the next step: to wait for it each time would slow it down."""
        return self.device.type == "cuda"

    def _next(self, batches: Iterator[Any]) -> tuple[float, Any]:
        began_s = time.perf_counter()
        batch = next(batches)
        return time.perf_counter() - began_s, batch

    def _endless(self, part: Part) -> Iterator[Any]:
        while True:
            yield from super().batches(part)
            self.position.next_epoch()

    def _now(self) -> float:
        return settled_s(self.device)

    def _agreed_steps(self) -> int:
        """Steps per visit, the same on every rank."""
        step_s = max(self.warmup_s[-1], 1e-6)
        wanted = min(MOST_STEPS, max(self.least_steps, math.ceil(VISIT_S / step_s)))
        return self._agreed(max(1, min(wanted, int(self.budget_s / step_s / self.visits))))

    def _agreed(self, number: int) -> int:
        """The first rank's, on every rank: each has its own idea of time."""
        return number if self.group is None else int(broadcast_bytes(self.group, str(number).encode()))

    def _steps_begin(self) -> None:
        """Count energy, here and where somebody watches."""
        if self._meter is not None:
            self._meter.start()
        mark("begin")

    def _steps_end(self) -> None:
        """Until they begin again, count none."""
        mark("end")
        if self._meter is not None:
            self.power_w = self._meter.stop()

    def evaluation_row_s(self) -> float:
        """Seconds per row of a forward pass, warmed up.

        From the difference of two sizes: what ranks take to meet comes once per pass, not per row.
        """
        assert self.dataset is not None  # noqa: S101 - called after the steps
        affordable = EVALUATION_S / (median(self.step_s) / self.batch_size)
        held = EVALUATED_BYTES // max(1, self.dataset.train.row_bytes)
        many = self._agreed(int(max(8, min(EVALUATED_ROWS, affordable, held))))
        few = many // 4
        few_s, many_s = self._pass_s(few), self._pass_s(many)
        return max((many_s - few_s) / (many - few), LEAST_OF_MEAN * many_s / many)

    def _pass_s(self, rows: int) -> float:
        """Seconds of a forward pass over so many rows: the median of some, after one that warms up."""
        assert self.net is not None and self.dataset is not None  # noqa: S101 - called after the steps
        part = _repeated(self.dataset.train, rows)
        taken = []
        for _ in range(1 + PASSES):
            began_s = self._now()
            self.outputs(self.net, part)
            taken.append(self._now() - began_s)
        return median(taken[1:])


def _meter_of(device: torch.device) -> EnergyMeter | None:
    """That of a GPU: NVML may number it otherwise than CUDA does, which shows only those that a rank was given."""
    if device.type != "cuda":
        return None
    index = index_of(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
    return None if index is None else EnergyMeter((index,))


def _whole_batches(part: Part, batch_size: int) -> Part:
    """Rows for some steps of exactly the batch size: a run's last batch may be another one, but it has only one."""
    batches = max(2, min(BATCHES, REPEATED_BYTES // max(1, part.row_bytes * batch_size)))
    return _repeated(part, batches * batch_size)


def _repeated(part: Part, rows: int) -> Part:
    """So many rows."""
    return part.take(torch.arange(rows) % len(part))


def mark(what: str) -> None:
    """Tell a watcher."""
    print("\n" + json.dumps({"mark": what}), flush=True)


def reset_peak(device: torch.device) -> None:
    """Count the peak anew from here; where the kernel does not allow it, the peak since the start stands."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")

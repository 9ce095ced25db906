"""Reports how a run is going: points of curves, pace, progress with the time left."""

from __future__ import annotations

import time
from collections.abc import Callable

from torch import Tensor

from worker.events import EventKind
from worker.memory_words import Phase
from worker.runtime.loss_curve import LossLog, LossPoint
from worker.runtime.position import Position
from worker.runtime.progress import Meter
from worker.runtime.report import Reporter
from worker.words import counted

SYNC_S = 0.3
"""Losses are read this often."""
PROGRESS_MOST_S = 2.0
"""Progress is told as often at first, in a run of more than half an hour at least this often: its file stays."""
RATE_S, RATE_MOST_S, RATE_SHARE = 1.0, 10.0, 1e-3
"""Samples per second of each rank are told this often: every second at first, in a long run each time so much of it is
over, for each is a row that stays. Other nodes know by them that they live: never more seldom than the second."""


class Teller:
    """Owns the clock of the steps. Every rank reports its own pace, the first one all the rest."""

    def __init__(self, reporter: Reporter, position: Position, epochs: int, started_s: float, world_size: int) -> None:
        self.reporter = reporter
        self.world_size = world_size
        self.position = position
        self.epochs = epochs
        self.started_s = started_s
        self.steps_per_epoch = 1
        self._longer = 0
        """So many steps more were made in the epochs before than ranks as they are now would have made."""
        self.losses = LossLog(1)
        self.meter = Meter(0.0)
        self.rows_factor = float(world_size)
        """Rows of all ranks over rows here."""
        self.rows_per_step = 0
        """Rows of a step over all ranks, where this rank makes some of the steps only; 0: it has a part in all."""
        self.rank_values: Callable[[], dict[str, float]] = dict
        """What else this rank tells with its pace."""
        self.phase = Phase.LOADING
        self._first = reporter.rank == 0
        self._running_told = False
        self._began = time.monotonic()
        self._last_rate = 0.0
        self._last_progress = 0.0
        self.reset_clock()

    def plan(self, steps_per_epoch: int, evaluation_share: float) -> None:
        """Take the length of an epoch, and evaluated over trained rows per epoch."""
        self.steps_per_epoch = steps_per_epoch
        self.losses = LossLog(steps_per_epoch * self.epochs)
        self.meter = Meter(evaluation_share)

    def resume(self) -> None:
        """The run goes on from its position: other ranks may have had epochs of other lengths (`batches.going_on`)."""
        position = self.position
        self._longer = position.step - position.step_in_epoch - position.epoch * self.steps_per_epoch

    @property
    def steps_total(self) -> int:
        """Steps of the whole run, if it is not stopped early."""
        return self.steps_per_epoch * self.epochs + self._longer

    def epochs_at(self, step: int) -> float:
        """Epochs that are over after this step of the run."""
        return (step - self._longer) / self.steps_per_epoch

    def speak_as(self, rank: int, world_size: int) -> None:
        """This process has become another rank, one of so many."""
        self._first, self.world_size, self.rows_factor = rank == 0, world_size, float(world_size)
        self.reset_clock()

    def step(self, loss: Tensor | float, learning_rate: float | None, rows: int) -> bool:
        """Take one step; says whether it is time to `sync`."""
        self._steps += 1
        self._rows += rows
        self.losses.add(loss, learning_rate, self.position.step)
        return time.monotonic() >= self._next_sync or not self._running_told

    def sync(self) -> None:
        """Read the losses and tell what is new. Raises `ProgramFailure` if one is not finite."""
        points = self.losses.drain()  # waits for the device, so the clock is read after it
        now = time.monotonic()
        if self._steps and not self._running_told:
            self._running_told = True
            if self._first:
                self.reporter.emit(EventKind.RUNNING, start_s=time.time() - self.started_s)
        if self._first:
            self.points(points)
        elapsed = now - self._clock
        if self._steps and elapsed > 0:
            made = self.position.step - self._from_step
            rows = made * self.rows_per_step or round(self._rows * self.rows_factor)
            self.meter.steps(made, rows, elapsed)
            if now - self._last_rate >= self._often(RATE_S, RATE_MOST_S):
                self._last_rate = now
                rate = {f"rank{self.reporter.rank}/samples_per_s": self._rows / elapsed}
                self.metric(self.position.step, rate | self.rank_values())
        self.reset_clock()
        if self._first and now - self._last_progress >= self._often(SYNC_S, PROGRESS_MOST_S):
            self.progress(Phase.TRAINING)

    def _often(self, least_s: float, most_s: float) -> float:
        """Seconds between two words of one kind, by how long the run has gone on."""
        return min(most_s, max(least_s, (time.monotonic() - self._began) * RATE_SHARE))

    def reset_clock(self) -> None:
        """Restart the timing of steps: what came before was not a training step."""
        self._clock = time.monotonic()
        self._next_sync = self._clock + SYNC_S
        self._from_step = self.position.step
        self._steps = self._rows = 0

    def alive(self, **more: float) -> None:
        """Report that work continues although no step is made, and `more` about it."""
        self._metric(self.position.step, {}, **more)

    def points(self, points: list[LossPoint]) -> None:
        """Tell points of the curve of the loss."""
        for point in points:
            rate = {} if point.learning_rate is None else {"train/learning_rate": point.learning_rate}
            self.metric(point.step, {"train/loss": point.loss, **rate})

    def metric(self, step: int, values: dict[str, float]) -> None:
        """Tell values at a step."""
        self._metric(step, values)

    def _metric(self, step: int, values: dict[str, float], **more: float) -> None:
        self.reporter.emit(EventKind.METRIC, step=step, epoch=self.epochs_at(step), values=values, **more)

    def epoch(self, values: dict[str, float], metric_name: str, *, out_of_time: bool = False) -> None:
        """Say in a line of the log how the epoch went, and where the run stops early, why."""
        shown = [f"epoch {self.position.epoch + 1}/{self.epochs}  train/loss {self.losses.last or 0:.4f}"]
        shown += [f"{name} {values[name]:.4f}" for name in (f"val/{metric_name}", "val/loss") if name in values]
        self.reporter.say("  ".join(shown) + ("  (best so far)" if self.position.is_best else ""))
        if self._first and self.position.stopped and self.position.epoch + 1 < self.epochs:
            stale = counted(self.position.stale_epochs, "epoch")
            why = "the time of its budget is over" if out_of_time else f"{stale} without a better {metric_name}"
            self.reporter.note(f"Stopped early, after epoch {self.position.epoch + 1} of {self.epochs}: {why}.")

    def training_begins(self) -> None:
        """From here on memory is that of steps: told before the first of them, which may take too much."""
        if self.phase is not Phase.TRAINING:
            self.progress(Phase.TRAINING)

    def progress(self, phase: Phase, **more: int) -> None:
        """Tell where the run stands, and `more` about it (first rank only).

        The others tell that they live: on another node than the first they have a watchdog of their own.
        """
        self.phase = phase
        if not self._first:
            if self._running_told:
                self.alive()
            return
        self._last_progress = time.monotonic()
        position, planned = self.position, self.steps_per_epoch > 1 or self.position.step > 0
        left = 0 if position.stopped else max(0, self.steps_total - position.step)
        self.reporter.emit(
            EventKind.PROGRESS,
            step=position.step,
            steps_total=self.steps_total if planned else None,
            epoch=position.epoch,
            epochs=self.epochs,
            samples_per_s=self.meter.samples_per_s,
            eta_s=self.meter.eta_s(left, self.steps_per_epoch),
            phase=phase,
            **more,
        )

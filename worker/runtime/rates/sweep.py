"""A `Run` under which train.py's learning rate rises step by step, and which notes what that does to the loss."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from worker.loss_left import LossWatch
from worker.runtime.data import Dataset, Part
from worker.runtime.evaluation import train_sample
from worker.runtime.inspection.standin import Enough, StandIn

WARM_UP = 3
"""Steps at the first rate before the ramp: the first sets up the optimizer, the others tell how long steps take."""
LEAST_STEPS = 40
"""Of a sweep, however slow they are."""
TELL_STEPS = 8
FORWARD_PART = 3.0
"""A step costs so many times its forward pass."""


class Ramp:
    """The rates of all sweeps; as many steps as the first sweep's pace allows."""

    def __init__(self, low: float, high: float, steps: int, budget_s: float) -> None:
        self.low, self.high, self.budget_s = low, high, budget_s
        self._wanted, self._began_s = steps, time.monotonic()
        self.rates: list[float] = []

    def left_s(self) -> float:
        """Of the budget."""
        return self.budget_s - (time.monotonic() - self._began_s)

    def plan(self, step_s: float) -> None:
        """Fix the rates by the time of a step, unless an earlier sweep did."""
        if self.rates:
            return
        affordable = int(self.left_s() / max(step_s, 1e-6))
        steps = max(min(self._wanted, LEAST_STEPS), min(self._wanted, affordable))
        ratio = math.log(self.high / self.low) / (steps - 1)
        self.rates = [self.low * math.exp(ratio * place) for place in range(steps)]


class SweepRun(StandIn):
    """Hands batches to train.py forever, until the last rate or until the loss has left."""

    def __init__(self, *arguments: Any, ramp: Ramp, tell: Callable[[float], None], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.ramp = ramp
        self.losses: list[float] = []
        self.scores: list[float] = []
        self.score_name = ""
        self.optimizer_name = ""
        self.steps_s: list[float] = []
        self.run_rows = 0
        """Of all steps of the whole run ..."""
        self.evaluated_rows = 0
        """... and of all its evaluations."""
        self._tell = tell
        self._warmed = 0
        self._outputs: list[Tensor] = []
        self._targets: Tensor | None = None
        self._clock = time.monotonic()
        self._watch = LossWatch()

    @property
    def done(self) -> float:
        """As in the middle of a run: for whatever else train.py makes depend on it."""
        return 0.5

    def place(self, net: nn.Module, dataset: Dataset) -> nn.Module:
        """As in a run; what the model says is noted from here on."""
        placed = super().place(net, dataset)
        self.score_name = "r2" if dataset.train.targets.is_floating_point() else "accuracy"
        evaluated = len(dataset.val) + len(train_sample(dataset.train, dataset.val))
        self.run_rows, self.evaluated_rows = self.epochs_total * len(dataset.train), self.epochs_total * evaluated
        placed.register_forward_hook(lambda _net, _inputs, output: self._said(output))
        return placed

    def restore(self, **_parts: Any) -> None:
        """A test begins where the run does."""

    def batches(self, part: Part) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        """Batches as in a run, epoch after epoch."""
        while True:
            for inputs, targets in super().batches(part):
                self._outputs, self._targets = [], targets
                self._clock = time.monotonic()
                yield inputs, targets
            self.position.next_epoch()

    def log_step(self, loss: Tensor, learning_rate: float | None = None) -> None:
        """Note the step; raises `Enough` after the last. A loss that is no number is noted, not raised."""
        self.position.step += 1
        self.position.step_in_epoch += 1
        value = float(loss.detach())
        self.steps_s.append(time.monotonic() - self._clock)
        if self._warmed < WARM_UP:
            self._warm_up()
            return
        self.losses.append(value)
        self.scores.append(self._score())
        if len(self.losses) % TELL_STEPS == 0:
            self._tell(len(self.losses) / len(self.ramp.rates))
        if len(self.losses) == len(self.ramp.rates) or self._watch.has_left(value):
            raise Enough

    @property
    def run_s(self) -> float:
        """What the whole run would take here, about: its steps, and evaluations at the price of a forward pass."""
        rows = self.run_rows + self.evaluated_rows / FORWARD_PART
        return median(self.steps_s) * rows / self.batch_size if self.steps_s else 0.0

    def checkpoint(self) -> None:
        """A test keeps nothing."""

    def finish(self, dataset: Dataset) -> None:
        """train.py left its loop by itself: what was seen until then counts."""
        raise Enough

    @contextmanager
    def rates_forced(self) -> Iterator[None]:
        """Every optimizer of this process steps with the ramp's rate; groups keep their proportions."""

        def force(optimizer: Optimizer, _arguments: Any, _named: Any) -> None:
            self.optimizer_name = type(optimizer).__name__
            given = [float(group["lr"]) for group in optimizer.param_groups]
            top = max(given) or 1.0
            for group, rate in zip(optimizer.param_groups, given, strict=True):
                wanted = self._rate() * (rate / top if max(given) else 1.0)
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(wanted)
                else:
                    group["lr"] = wanted

        hook = register_optimizer_step_pre_hook(force)
        try:
            yield
        finally:
            hook.remove()

    def _rate(self) -> float:
        """Of the step that is being made."""
        place = min(len(self.losses), len(self.ramp.rates) - 1)
        return self.ramp.rates[place] if self.ramp.rates and self._warmed >= WARM_UP else self.ramp.low

    def _warm_up(self) -> None:
        self._warmed += 1
        if self._warmed == WARM_UP:
            self.ramp.plan(time.monotonic() - self._clock)

    def _said(self, output: Any) -> None:
        if isinstance(output, Tensor):
            self._outputs.append(output.detach())

    def _score(self) -> float:
        """Share of the batch that is right, or of its variance that is explained; NaN where that cannot be told."""
        targets = self._targets
        if targets is None or sum(map(len, self._outputs)) != len(targets):
            return math.nan
        outputs = torch.cat(self._outputs).float()
        if targets.is_floating_point():
            return 1.0 - float(((outputs.reshape(len(targets), -1)[:, 0] - targets) ** 2).mean())
        return float((outputs.argmax(1) == targets).float().mean())

"""A short training of a program at one learning rate, judged by its own evaluation of the validation rows.

The program trains as in a run whose spec names this rate: nothing is forced. Only the run is shorter, by steps and not
by epochs, so that runs of few epochs can be tried as well: warm-up and schedule are those of a run of that length, and
weights are averaged over the same share of it.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from worker.runtime.data import Dataset, Part
from worker.runtime.device import set_up_torch
from worker.runtime.inspection.standin import Enough, StandIn, drive
from worker.runtime.rng import seed_all
from worker.runtime.spec import Spec

TELL_STEPS = 16


class OutOfTime(BaseException):
    """The time for all trials is over in the middle of one. No `Exception`, for the same reason as `Enough`."""


class TrialRun(StandIn):
    """Trains for `share` of the run's steps and keeps nothing but the loss of the validation rows after the last."""

    def __init__(
        self, *arguments: Any, share: float, rows_share: float, end_s: float, tell: Callable[[float], None],
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(*arguments, **settings)
        self.share, self.rows_share = share, rows_share
        self.steps = 0
        """Of this trial; known with the first batch."""
        self.loss: float | None = None
        """None: not evaluated, or no finite number."""
        self.evaluated = False
        self.seen_rate = 0.0
        """The largest that an optimizer stepped with."""
        self._end_s, self._tell = end_s, tell

    @property
    def done(self) -> float:
        """Share of the trial that is over halfway through this step, as in a run: a step at its end has no rate."""
        return min(1.0, (self.position.step + 0.5) / self.steps) if self.steps else 0.0

    @property
    def over(self) -> bool:
        """Whether all steps were made."""
        return 0 < self.steps <= self.position.step

    def restore(self, **_parts: Any) -> None:
        """A trial begins where the run does."""

    def epochs(self) -> Iterator[int]:
        """As many as the steps need."""
        while not self.over:
            yield self.position.epoch
            self.position.next_epoch()

    def batches(self, part: Part) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        """Batches as in a run, until the trial's steps are made."""
        if not self.steps:
            run_steps = self.epochs_total * self._plan(part).steps / self.rows_share
            self.steps = max(1, round(self.share * run_steps))
        for batch in super().batches(part):
            yield batch
            if self.over:
                return

    def log_step(self, loss: Tensor, learning_rate: float | None = None) -> None:
        """Count the step; a loss that is no number ends the trial. Raises `OutOfTime`."""
        self.position.step += 1
        self.position.step_in_epoch += 1
        if not math.isfinite(float(loss.detach())):
            self.evaluated = True
            raise Enough
        if self.position.step % TELL_STEPS == 0:
            self._tell(self.position.step / max(self.steps, self.position.step))
        if time.monotonic() > self._end_s:
            raise OutOfTime

    def evaluate(self, net: nn.Module, dataset: Dataset) -> dict[str, dict[str, float]]:
        """Of every epoch as in a run: what train.py does with it is its own. The last counts."""
        told = super().evaluate(net, dataset)
        if "loss" not in told.get("val", {}):
            raise ValueError("Trials are judged by validation rows, and the split of the spec keeps none.")
        loss = told["val"]["loss"]
        self.evaluated, self.loss = True, loss if math.isfinite(loss) else None
        if self.over:
            raise Enough
        return told

    def log_epoch(self, metrics: dict[str, dict[str, float]]) -> None:
        """No patience: a trial is as long as it is told."""

    def checkpoint(self) -> None:
        """A trial keeps nothing."""

    def finish(self, dataset: Dataset) -> None:
        """train.py left its loop by itself: its last evaluation counts."""
        raise Enough

    @contextmanager
    def rates_seen(self) -> Iterator[None]:
        """Note the rates that optimizers step with."""

        def look(optimizer: Optimizer, _arguments: Any, _named: Any) -> None:
            self.seen_rate = max(self.seen_rate, *(float(group["lr"]) for group in optimizer.param_groups))

        hook = register_optimizer_step_pre_hook(look)
        try:
            yield
        finally:
            hook.remove()


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all trials of a program have in common."""

    program: Path
    data: Path
    rows_share: float = 1.0
    """Rows of `data` over all rows of the run."""
    end_s: float = math.inf
    """By the monotonic clock: no trial goes on then."""
    batch: int | None = None
    device: str = "cpu"
    threads: int = 1


def trial(
    bench: Bench, spec: Spec, rate: float, *, share: float, tell: Callable[[float], None] = lambda _share: None
) -> TrialRun:
    """Train for `share` of the run at a peak rate. Raises what the program raises, and `OutOfTime`."""
    spec |= {"mode": "single", "budget": Spec()}
    spec["checkpoints"] = Spec({**spec.get("checkpoints", {}), "every_minutes": math.inf})
    spec["training"] |= {"learning_rate": rate, "ema": _ema(float(spec.training.get("ema", 0.0)), share)}
    with tempfile.TemporaryDirectory(prefix="trial-") as work:
        run = TrialRun(
            spec, bench.data, Path(work), bench.batch, share=share, rows_share=bench.rows_share, end_s=bench.end_s,
            tell=tell, DLH_DEVICE=bench.device,
        )  # fmt: skip
        set_up_torch(run.device, bench.threads)
        seed_all(run.seed)
        with run.rates_seen():
            drive(bench.program, run)
    if not run.evaluated:
        raise ValueError("train.py reported no validation loss: it has to call run.evaluate(...) after an epoch.")
    return run


def _ema(decay: float, share: float) -> float:
    """A decay that averages over the same share of a shorter run."""
    return max(0.0, 1.0 - (1.0 - decay) / share) if decay else 0.0

"""`Run`: what a training program is given, alone or as one of many ranks on the pool."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from worker.memory_words import Phase
from worker.merit import larger_is_better
from worker.runtime import compiler, memory, modes
from worker.runtime.batches import BatchPlan, batch_plan, epoch_order, going_on
from worker.runtime.checkpointer import Checkpointer
from worker.runtime.collective import Group, join
from worker.runtime.control import Control
from worker.runtime.data import Dataset, Part
from worker.runtime.device import choose_device
from worker.runtime.evaluation import epoch_metrics, train_sample
from worker.runtime.loss_curve import check_losses
from worker.runtime.loss_scale import LossScale, trained
from worker.runtime.memory_growth import MemoryGrowth
from worker.runtime.metrics import is_by_loss, judged_by, judged_note, plain_numbers, told_values
from worker.runtime.modes.whole import Whole
from worker.runtime.opening import opening_notes, opening_tell
from worker.runtime.outcome.results import write_preprocess, write_results
from worker.runtime.pace import Pace
from worker.runtime.position import Position
from worker.runtime.precision import Rounding
from worker.runtime.report import Reporter
from worker.runtime.rng import batch_seed, seed_all
from worker.runtime.settings import Settings
from worker.runtime.spec import Spec
from worker.runtime.start_weights import weights_take
from worker.runtime.starting import run_started
from worker.runtime.teller import Teller
from worker.runtime.trial import Trial
from worker.words import counted


class Run:
    """One rank of one training run. Make it by `Run.start`; public names below are for train.py."""

    def __init__(self, spec: Spec, settings: Settings, reporter: Reporter) -> None:
        if settings.mode:
            spec["mode"] = settings.mode
        if settings.stages:
            spec["pipeline"] = Spec({**spec.get("pipeline", {}), "stages": settings.stages})
        self.spec = spec
        self.settings = settings
        self.reporter = reporter
        self.rank = settings.rank
        self.world_size = settings.world_size
        self.slots = tuple(range(settings.world_size))
        """Of each rank the one that its process began as: what is planned for a device goes by these numbers."""
        self.data_folder = settings.data
        self.seed = int(spec.training.seed)
        self.batch_size = int(spec.training.batch_size)
        self.epochs_total = settings.epochs or int(spec.training.epochs)
        self.metric_name = str(spec.objective.metric)
        wanted = settings.device or str(spec.get("resources", {}).get("device", "auto"))
        self.device = choose_device(wanted, given=settings.token > 0)
        self.generator = torch.Generator(self.device)
        """For random changes of a batch; seeded anew for every batch."""
        self.autocast = Rounding(self.device, str(spec.training.get("precision", "auto")))
        self.loss_scale = LossScale(self.device, needed=self.autocast.needs_scale)
        self.position = Position()
        self.teller = Teller(reporter, self.position, self.epochs_total, settings.started_s, self.world_size)
        self.checkpointer = Checkpointer(self)
        self.control = Control(self)
        self.pace = Pace(self)
        self.group: Group | None = None
        self.mode: modes.Mode = Whole(self)
        self.trial = Trial(self)
        self.growth = MemoryGrowth(self.device)
        self.sample: Part | None = None
        """Training rows, of which a mode may try a few."""
        self._rows_here, self._share, self._evaluation_s = 0, 1.0, 0.0
        self._global_loss: float | Tensor | None = None
        self._began_s = time.monotonic()
        self.load_s = 0.0
        """Seconds until the rows were read and the model was built."""
        compiler.set_up(needed=self.world_size > 1 and settings.backend == "torch")  # torch.distributed asks for it
        self.idle_bytes = memory.idle_bytes()

    # ---- start -------------------------------------------------------------------------------------------------
    @staticmethod
    def start(spec_file: str | Path = "spec.yaml", arguments: Sequence[str] | None = None) -> Run:
        """Read the spec and the environment, choose the device, seed, and report every error from here on."""
        return run_started(Run, spec_file, arguments)

    def place(self, net: nn.Module, dataset: Dataset) -> nn.Module:
        """Move the model to the device, try it on a few rows, meet the other ranks, share the first weights.

        Returns what this rank trains: the model, or in a pipeline its stage of it.
        Raises `ProgramFailure` where the model does not fit the data, `DataError` for too few rows.
        """
        self.load_s = time.monotonic() - self._began_s
        self.mode = modes.choose(self)
        plan = self._plan(dataset.train)
        if isinstance(net, nn.Module):
            net = net.to(self.mode.home)
        self.trial.make(net, dataset)
        self.checkpointer.beginning = self.start_weights(net)
        self.group = self._joined(self.trial.step_s)
        self.agree_precision()
        parameters, self.sample = sum(weight.numel() for weight in net.parameters()), dataset.train
        self.position.held_out = (dataset.held_out,)
        notes = (*dataset.notes, *self.trial.notes, *opening_notes(self, net))
        net = self.mode.place(net)
        evaluated = len(dataset.val) + len(train_sample(dataset.train, dataset.val))
        self.teller.plan(plan.steps, evaluated / len(dataset.train))
        seed_all(self.seed + 100_003 * (self.rank + 1))
        if self.rank == 0:
            write_preprocess(self, dataset)
        opening_tell(self, dataset, parameters, notes)
        return net

    def restore(self, **parts: Any) -> None:
        """Name what checkpoints hold (`net`, `optimizer`, `ema`, ...; None is left out) and load the newest good."""
        self.checkpointer.parts = {name: part for name, part in parts.items() if part is not None}
        self.checkpointer.restore()
        self.teller.resume()
        self.pace.resume()
        self.control.restart_clock()

    # ---- the loop ----------------------------------------------------------------------------------------------
    def epochs(self) -> Iterator[int]:
        """Epoch numbers from where the run stands, until the last or until the run is to stop early."""
        while self.position.epoch < self.epochs_total and not self.position.stopped:
            yield self.position.epoch
            self.position.next_epoch()

    def batches(self, part: Part) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        """(inputs, targets) of this rank for each step left of the epoch, on the device.

        Between steps the run may save itself, or save and leave because it was asked to pause.
        """
        plan, epoch = self._plan(part), self.position.epoch
        begun = self.position.epoch_steps, self.position.epoch_batch
        first, left_out = going_on(plan, self.position.step_in_epoch, *begun)
        self.position.epoch_steps, self.position.epoch_batch = plan.steps, plan.batch_size
        if first != self.position.step_in_epoch:
            self.position.step_in_epoch = first
            self.teller.resume()
        if left_out and self.rank == 0:
            rows, ranks = counted(left_out, "row"), counted(self.world_size, "rank")
            self.reporter.note(f"Epoch {epoch + 1} ends without its last {rows}: too few for a step of {ranks}.")
        order = epoch_order(len(part), self.seed, epoch)
        self.teller.reset_clock()
        self.pace.restart()
        self.teller.training_begins()
        for step, batch in self.mode.batches(part, plan, order, first):
            self.position.go_to(step)
            start, stop = plan.bounds(step)
            self._rows_here = len(batch[1])
            self._share = self._rows_here / (stop - start)
            self.mode.begin(self._share)
            self.generator.manual_seed(batch_seed(self.seed, epoch, step, self.mode.shards[0]))
            yield batch
            if self.control.between_steps():
                break
        self.sync()

    def backward(
        self, net: nn.Module, inputs: tuple[Tensor, ...], targets: Tensor, criterion: modes.Criterion
    ) -> Tensor:
        """Forward and backward pass of the rows here: at once, in micro-batches or in stages, as the mode says.

        Returns their loss: `criterion(outputs, targets)`, a mean over rows.
        """
        self.loss_scale.open(trained(net, self.checkpointer.parts) if self.loss_scale.is_on else ())
        return self.mode.backward(net, inputs, targets, criterion)

    def average_gradients(self, loss: Tensor) -> None:
        """Average gradients (and batch statistics) over the ranks, weighted by rows. One rank: nothing to do."""
        self.pace.worked()
        controls = None if self.group is None else self.mode.average(loss, self._share, self.control.tells())
        self.pace.met()
        self.mode.unscale()
        if controls is not None:
            self._global_loss = self.control.take(controls)

    def clip_gradients(self, net: nn.Module, longest: float) -> None:
        """Scale the gradients down where their norm over the whole model is above `longest`."""
        self.mode.unscale()  # one rank alone need not average
        self.mode.clip(net, longest)

    def update(self, optimizer: Optimizer) -> None:
        """Let the gradients move the weights: here, or at the parameter servers."""
        self.mode.unscale()
        self.mode.update(optimizer)

    def log_step(self, loss: Tensor, learning_rate: float | None = None) -> None:
        """Count a step. Costs microseconds: the loss is read from a GPU only a few times a second."""
        if (told := self.loss_scale.check(self.position.step + 1)) and self.rank == 0:
            self.reporter.note(told)
        self.position.step += 1
        self.position.step_in_epoch += 1
        value: Tensor | float | None = self._global_loss
        if value is None:
            value = loss.item() if self.device.type == "cpu" else loss.detach()
        if self.teller.step(value, learning_rate, self._rows_here):
            self.sync()
        if self.growth.look():
            self.teller.progress(Phase.TRAINING, memory_grows=int(self.growth.grows))

    @property
    def done(self) -> float:
        """Share of the run that is over halfway through this step, 0 to 1: of its steps, or of its time if more.

        Not at its end: a rate that falls to zero would be zero for the last step, or for the only one.
        """
        return min(1.0, max((self.position.step + 0.5) / self.teller.steps_total, self.control.time_spent))

    def evaluate(self, net: nn.Module, dataset: Dataset) -> dict[str, dict[str, float]]:
        """Metrics of the validation rows, and of as many training rows, by part; shared out over the ranks."""
        self.teller.progress(Phase.VALIDATION)
        started = time.monotonic()
        metrics = epoch_metrics(self, net, dataset)
        self._evaluation_s = time.monotonic() - started
        return metrics

    def outputs(self, net: nn.Module, part: Part) -> Tensor:
        """What the model says about every row of a part: float32 [N, outputs] on the CPU, on every rank."""
        return self.mode.outputs(net, part)

    def log_epoch(self, metrics: dict[str, dict[str, float]]) -> None:
        """Tell the metrics of the epoch, and whether it is the best; counts towards stopping early.

        Raises `ProgramFailure` if one is no number, and (nan_loss) if a loss is not a finite one.
        """
        metrics = plain_numbers(metrics)
        position = self.position
        check_losses(position.step, metrics)
        judged = metrics.get("val") or metrics["train"]
        value = judged_by(judged, self.metric_name)
        if position.judge(self.metric_name, by_loss=is_by_loss(judged, self.metric_name)) and self.rank == 0:
            self.reporter.note(judged_note(self.metric_name))
        position.close_epoch(value, larger_is_better(self.metric_name), int(self.spec.training.get("patience", 0)))
        out_of_time = self.control.time_spent >= 1.0
        position.stopped = position.stopped or out_of_time
        told = told_values(metrics)
        if self.rank == 0:
            self.teller.metric(position.step, told)
        self.teller.epoch(told, self.metric_name, out_of_time=out_of_time)

    def checkpoint(self) -> None:
        """Save if the spec's policy says so: every few epochs or minutes, the best epoch, and the last."""
        started = time.monotonic()
        self.checkpointer.end_of_epoch()
        self.teller.meter.epoch_end(self._evaluation_s + time.monotonic() - started)

    def finish(self, dataset: Dataset) -> None:
        """Take the best weights, predict all parts, write the results folder."""
        self.teller.progress(Phase.ANALYSIS)
        self.checkpointer.flush()
        write_results(self, self.mode.whole(self.checkpointer.parts["net"]), dataset)
        if self.rank == 0 and (told := self.loss_scale.told(self.position.step)):
            self.reporter.note(told)
        self.teller.progress(Phase.DONE)
        self.leave()

    def leave(self) -> None:
        """Leave the other ranks; they must leave as well."""
        self.mode.close()
        if self.group is not None:
            self.group.close()
        self.reporter.close()

    # ---- for the runtime's own modules -------------------------------------------------------------------------
    def start_weights(self, net: nn.Module) -> str:
        """Have the model start from the weights that the spec names; a note on it for the page, should no checkpoint
        take their place. Every rank does so by itself: they all have the file."""
        fit = weights_take(net, self.spec, self.settings.weights)
        return "" if fit is None else fit.words

    def sync(self) -> None:
        """Read the losses, report what is new, receive requests."""
        self.control.look()
        self.checkpointer.check()
        self.teller.sync()

    def agree_precision(self) -> None:
        """All ranks that have met compute in the same."""
        if self.group is not None:
            self.autocast.agree(self.group)
        if self.loss_scale.is_on != self.autocast.needs_scale:
            self.loss_scale = LossScale(self.device, needed=self.autocast.needs_scale)

    def _joined(self, step_s: float) -> Group | None:
        """Meet the other ranks; `step_s` is the expected time of a step."""
        return join(self.settings.backend, step_s, self.device) if self.world_size > 1 else None

    def _plan(self, part: Part) -> BatchPlan:
        return batch_plan(part, self.batch_size, self.mode.shards[1])

"""`ElasticRun`: a run that continues when a rank is lost, and takes it in again when it has come back.

Every rank keeps a copy in memory of all that the run depends on, every `checkpoints.commit_steps` steps. A program
cannot be sent back to an earlier line: after a loss, what it still does is void (no update, no point of a curve, no
checkpoint) until it asks for its next epoch. There the ranks that are left take their new places, go back to the copy
of the first of them, and train on. The batch stays the same for any number of ranks, and with it the update.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from worker.events import FailureCode
from worker.plan import EXIT_PEER_LOST
from worker.runtime import failures, modes
from worker.runtime.batches import BatchPlan, ElasticPlan
from worker.runtime.collective import Group, PeerLost
from worker.runtime.data import Dataset, Part
from worker.runtime.elastic.copies import ElasticCheckpointer, KeptLosses, copy_load, copy_save, copy_take, rng_take
from worker.runtime.elastic.seat import Place, Seat, SeatedGroup, Wires, warm_up
from worker.runtime.failures import ProgramFailure
from worker.runtime.handing import state_handed
from worker.runtime.modes.whole import Whole
from worker.runtime.pace import Pace
from worker.runtime.report import Reporter
from worker.runtime.run import Run
from worker.runtime.settings import Settings
from worker.runtime.spec import Spec

COMMIT_STEPS = 10
"""Where spec.yaml says nothing."""
CAUSES = {"lost": "A rank was lost", "back": "A rank has come back"}


class ElasticRun(Run):
    """One process of a run whose ranks come and go."""

    def __init__(self, spec: Spec, settings: Settings, reporter: Reporter) -> None:
        super().__init__(spec, settings, reporter)
        assert settings.seat_fd is not None  # noqa: S101 - it is why this class was chosen
        self.checkpointer: ElasticCheckpointer = ElasticCheckpointer(self)
        self.most_ranks = self.world_size
        wish = spec.get("checkpoints", {}).get("commit_steps")
        self.commit_steps = wish if isinstance(wish, int) and wish > 0 else COMMIT_STEPS
        self.generation = 0
        self.void = False
        """A rank was lost: what the program does until it asks for its next epoch does not count."""
        self.copy: dict[str, Any] | None = None
        self._was_first = False
        self._wires: Wires | None = None
        self._cut_generation = 0
        self._step_s = 0.0
        self._metrics: dict[str, dict[str, float]] = {}
        self.seat = Seat(settings.seat_fd, self._cut, self._depart, self._rescue)

    # ---- start -------------------------------------------------------------------------------------------------
    def place(self, net: nn.Module, dataset: Dataset) -> nn.Module:
        """Move the model to the device and try it; the other ranks are met when it is known what is trained."""
        placed = super().place(net, dataset)
        self.teller.losses = KeptLosses(self.teller.steps_total)
        return placed

    def _joined(self, step_s: float) -> Group | None:
        self._step_s = step_s
        return None

    def restore(self, **parts: Any) -> None:
        """Name what is to be kept; the first rank loads the newest good checkpoint, and all meet."""
        self.checkpointer.parts = {name: part for name, part in parts.items() if part is not None}
        warm_up()
        if self.rank == 0:
            self._load()
        self._sit(self.seat.ready(self.generation, self._copy_step))

    def _load(self) -> None:
        """What nobody has in memory: from the newest good checkpoint, or from the beginning."""
        self.checkpointer.restore()
        self.copy = copy_take(self)

    # ---- places ------------------------------------------------------------------------------------------------
    @property
    def _copy_step(self) -> int | None:
        return None if self.copy is None else int(self.copy["position"]["step"])

    def _cut(self, generation: int) -> None:
        """From the listening thread: do not wait for the lost."""
        self._cut_generation = max(self._cut_generation, generation)
        if self._wires is not None and generation in (0, self.generation):
            self._wires.cut()

    def _lose(self) -> None:
        """A rank was lost: let go of the others, all of which notice it."""
        if self._wires is not None:
            self._wires.cut()
        self._part()

    def _part(self) -> None:
        """What follows does not count."""
        self.void = True
        if isinstance(self.mode, Whole):
            self.mode.forget_ranks()

    def _sit(self, place: Place) -> None:
        """Take a place, and another one for as long as ranks are lost while they meet."""
        while True:
            try:
                self._take(place)
                break
            except PeerLost:
                self._lose()
                place = self.seat.ready(self.generation, self._copy_step)
        self.void = False

    def _depart(self) -> NoReturn:
        """End well: nobody takes this one's place before its checkpoint is on disk."""
        self.checkpointer.settle()
        self.reporter.close()
        failures.leave(0)

    def _rescue(self) -> NoReturn:
        """The node that writes for all is lost: save this rank's copy, and end as one that lost its siblings."""
        copy_save(self)
        self.reporter.close()
        failures.leave(EXIT_PEER_LOST)

    def _take(self, place: Place) -> None:
        self._leave_group()
        self.generation, self.rank, self.world_size = place.generation, place.rank, place.size
        self.slots = tuple(place.slots)
        self.reporter.speak_as(place.voice, self.settings.events.with_name(f"rank-{place.voice}.jsonl"))
        self.teller.speak_as(place.rank, place.size)
        self._global_loss = None  # of ranks that may be gone: one alone tells its own
        if self.rank == place.source == 0 and self.copy is None:
            self._load()
        if place.size > 1:
            self._wires = Wires()
            if self._cut_generation >= place.generation:
                raise PeerLost("a rank was lost before it was met")
            self.group = SeatedGroup(place, self._step_s, self.device, self._wires)
            self.agree_precision()
        self.seat.met(place.generation)
        elapsed_s = self.control.elapsed_s()
        if not place.same:
            self.copy, elapsed_s = self._shared_copy(place.source, elapsed_s)
        assert self.copy is not None  # noqa: S101 - the first rank has one by now
        copy_load(self, self.copy, again=place.generation > 1)
        self.teller.resume()
        rng_take(self, self.copy)
        self.position.elapsed_s = elapsed_s
        self.mode, self.pace = modes.choose(self), Pace(self)
        self.mode.place(self.checkpointer.parts["net"])
        self.pace.resume()
        self.control.restart_clock()
        self._tell_place(place)

    def _shared_copy(self, source: int, elapsed_s: float) -> tuple[dict[str, Any], float]:
        """One rank's copy, on every rank."""
        if self.group is None:
            assert self.copy is not None  # noqa: S101
            return self.copy, elapsed_s
        own_rng = None if self.copy is None else self.copy["rng"]
        copy, elapsed_s = state_handed(self.group, self.rank, (self.copy, elapsed_s), source)
        return {**copy, "rng": own_rng}, elapsed_s

    def _tell_place(self, place: Place) -> None:
        """The first rank tells what a lost first one may not have told."""
        if self.rank == 0:
            if place.generation > 1:
                if not self._was_first and self.copy is not None:
                    self.teller.points(KeptLosses.points_of(self.copy["points"]))
                if place.cause:
                    going_on = f"continuing with {place.size} of {self.most_ranks} ranks from step {self.position.step}"
                    rows = " + ".join(map(str, self.pace.split))
                    shared_out = f" The ranks take {rows} rows." if rows else ""
                    self.reporter.note(f"{CAUSES[place.cause]}: {going_on}.{shared_out}", ranks=place.size)
            self.checkpointer.keep_best()
        self._was_first = self.rank == 0

    def _leave_group(self) -> None:
        group, self.group = self.group, None
        if group is not None:
            with suppress(PeerLost, RuntimeError):
                group.close()
        self._wires = None

    # ---- the loop ----------------------------------------------------------------------------------------------
    def epochs(self) -> Iterator[int]:
        """Epoch numbers as in any run; an epoch in which a rank was lost comes again."""
        while True:
            if self.void:
                self._sit(self.seat.ready(self.generation, self._copy_step))
            if not self.generation:
                raise _not_restored()
            if self.position.epoch >= self.epochs_total or self.position.stopped:
                place = self.seat.end(self.generation, self._copy_step)
                if place is None:
                    return
                self._lose()
                self._sit(place)
                continue
            yield self.position.epoch
            if not self.void:
                self.position.next_epoch()

    def batches(self, part: Part) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        """Batches as in any run, until a rank is lost."""
        if self.void:
            return
        try:
            for batch in self.seat.each_timed(super().batches(part)):
                yield batch
                if not self.void and self.position.step % self.commit_steps == 0:
                    self._commit()
                if self.void:
                    return
        except PeerLost:
            self._lose()

    def _commit(self) -> None:
        """Copy the run; where a new rank waits, this is the moment to take it in."""
        self.copy = copy_take(self)
        if self.seat.called == self.generation:
            self._part()
            self._leave_group()  # in good order: the others hear of it by Horovod

    def backward(
        self, net: nn.Module, inputs: tuple[Tensor, ...], targets: Tensor, criterion: modes.Criterion
    ) -> Tensor:
        """As in any run; the loss is 0 where it does not count."""
        try:
            return super().backward(net, inputs, targets, criterion)
        except PeerLost:
            self._lose()
            return torch.zeros((), device=self.device)

    def average_gradients(self, loss: Tensor) -> None:
        """As in any run."""
        if self.void:
            return
        try:
            super().average_gradients(loss)
        except PeerLost:
            self._lose()

    def update(self, optimizer: Optimizer) -> None:
        """As in any run; the weights stay where the step does not count."""
        if not self.void:
            super().update(optimizer)

    def log_step(self, loss: Tensor, learning_rate: float | None = None) -> None:
        """As in any run; no point of a curve where the step does not count."""
        if not self.void:
            super().log_step(loss, learning_rate)

    def evaluate(self, net: nn.Module, dataset: Dataset) -> dict[str, dict[str, float]]:
        """As in any run; the last figures, or none, where they do not count."""
        if not self.void:
            try:
                with self.seat.timed():
                    self._metrics = super().evaluate(net, dataset)
            except PeerLost:
                self._lose()
        nothing = {"loss": math.nan, self.metric_name: math.nan}
        return self._metrics or {"train": dict(nothing), "val": dict(nothing)}

    def log_epoch(self, metrics: dict[str, dict[str, float]]) -> None:
        """As in any run."""
        if not self.void:
            super().log_epoch(metrics)

    def checkpoint(self) -> None:
        """As in any run."""
        if self.void:
            return
        try:
            super().checkpoint()
        except PeerLost:
            self._lose()

    # ---- for the runtime's own modules -------------------------------------------------------------------------
    def _plan(self, part: Part) -> BatchPlan:
        plain = super()._plan(part)
        return ElasticPlan(
            rows=plain.rows, batch_size=plain.batch_size, world_size=plain.world_size, most_ranks=self.most_ranks
        )


def _not_restored() -> ProgramFailure:
    message = (
        "The program did not call run.restore(...): its ranks have not met, and could not continue without a lost one."
    )
    hint = "Call run.restore(net=net, optimizer=optimizer) before the loop, or leave resources.least to auto."
    return ProgramFailure(FailureCode.PROGRAM_ERROR, message, hint)

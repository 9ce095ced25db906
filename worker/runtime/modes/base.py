"""`Mode`: how the steps of a run are made and shared. One program, several ways to train it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from worker.runtime.batches import BatchPlan
from worker.runtime.data import Part

Batch = tuple[tuple[Tensor, ...], Tensor]
"""(inputs, targets) of one rank, on its device."""
Criterion = Callable[[Tensor, Tensor], Tensor]
"""(outputs, targets) -> the loss, a mean over the rows: parts of a batch are weighted by their rows."""


class Mode(Protocol):
    """One object per rank and run, chosen by `modes.choose`. All ranks call the same methods in the same order."""

    name: str
    """As in the spec: single, replicated, sync, async, pipeline, pipeline+sync."""

    @property
    def shards(self) -> tuple[int, int]:
        """(this rank's place, number) among those that share out the rows of a batch."""

    @property
    def home(self) -> torch.device:
        """Where the whole model is tried: the device, or the host where no device need hold all of it."""

    def place(self, net: nn.Module) -> nn.Module:
        """Make ready to train: `net` is on its `home`, the ranks have met. Returns what this rank trains: `net` or a
        part of it."""

    def batches(self, part: Part, plan: BatchPlan, order: Tensor, first_step: int) -> Iterator[tuple[int, Batch]]:
        """(step of the epoch, batch) for each step that this rank makes, from `first_step` on."""

    def begin(self, share: float) -> None:
        """A step begins; `share` = rows here / rows on all ranks."""

    def backward(self, net: nn.Module, inputs: tuple[Tensor, ...], targets: Tensor, criterion: Criterion) -> Tensor:
        """Forward and backward pass; returns the mean loss of the rows here. Gradients are in the weights after it."""

    def average(self, loss: Tensor, share: float, wishes: tuple[float, ...]) -> Tensor | None:
        """Make the gradients those of the whole batch.

        Returns the mean loss of the whole batch and, summed over ranks, the wishes; None where ranks do not meet
        in every step. `wishes`: to pause, to save, share of the time budget that is spent, and where ranks share out
        rows (`run.pace`) what it tells.
        """

    def unscale(self) -> None:
        """Take gradients of a scaled loss, now those of the whole batch, back to their size; all ranks know whether
        one of them overflowed. It may be called again."""

    def clip(self, net: nn.Module, longest: float) -> None:
        """Scale the gradients down to the norm `longest`, over all of the model."""

    def update(self, optimizer: Optimizer) -> None:
        """Move the weights."""

    def outputs(self, net: nn.Module, part: Part) -> Tensor:
        """What the model says about every row of a part: float32 [N, outputs] on the CPU, on every rank."""

    def state(self, parts: dict[str, Any]) -> dict[str, Any]:
        """State dicts by name as one process alone would have them: checkpoints move between modes. First rank's
        counts; the others take part."""

    def load(self, parts: dict[str, Any], states: dict[str, Any]) -> None:
        """Inverse of `state`, on every rank."""

    def whole(self, net: nn.Module) -> nn.Module:
        """The model of which `place` may have returned a part; its weights are those of no particular step."""

    def close(self) -> None:
        """The run is over, on every rank; the group is left afterwards."""

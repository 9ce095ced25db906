"""The rows of a rank in micro-batches, one after another: less memory, the same update."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from worker.runtime.modes.base import Criterion
from worker.runtime.modes.whole import Whole

if TYPE_CHECKING:
    from worker.runtime.run import Run

LEAST_ROWS = 2
"""Of a micro-batch: batch normalisation cannot take a single row."""


class Accumulated(Whole):
    """Gradients of the micro-batches add up, each weighted by its rows: g = sum_i (rows_i / rows) g_i.

    That is the gradient of the whole batch up to the order of additions. Batch normalisation is the exception: it
    takes mean and variance from the rows it sees at once, which are those of a micro-batch.
    """

    def __init__(self, run: Run, micro_batches: int) -> None:
        super().__init__(run)
        self.micro_batches = micro_batches
        self._share = 1.0

    def begin(self, share: float) -> None:
        """Gradients are whole with the last micro-batch only: nothing leaves before it."""
        self._share = share

    def backward(self, net: nn.Module, inputs: tuple[Tensor, ...], targets: Tensor, criterion: Criterion) -> Tensor:
        """Micro-batch by micro-batch."""
        rows = len(targets)
        count = max(1, min(self.micro_batches, rows // LEAST_ROWS))
        bounds = [rows * number // count for number in range(count + 1)]
        total = torch.zeros((), device=targets.device)
        for start, stop in itertools.pairwise(bounds):
            if stop == rows:
                super().begin(self._share)
            piece = tuple(tensor[start:stop] for tensor in inputs)
            total += self.one_pass(net, piece, targets[start:stop], criterion, (stop - start) / rows)
        return total

    @property
    def rows_at_once(self) -> int:
        """Those of a micro-batch, for evaluating too."""
        return max(1, super().rows_at_once // self.micro_batches)

    def one_pass(
        self, net: nn.Module, inputs: tuple[Tensor, ...], targets: Tensor, criterion: Criterion, share: float
    ) -> Tensor:
        """Forward and backward pass of a micro-batch; returns its loss times its share of the rows."""
        with self.run.autocast:
            loss = criterion(net(*inputs), targets) * share
        torch.autograd.backward(self.run.loss_scale.scale(loss))
        return loss.detach()

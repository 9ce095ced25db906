"""How probable each class is, by blocks of rows or one class at a time: of many classes all at once would be the larger
part of the memory that a run needs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from worker.runtime.pulse import pulse

BLOCK_BYTES = 64 << 20
"""Of the probabilities that are made at once, about."""
Floats = NDArray[np.float64]


def row_blocks(logits: Tensor) -> Iterator[slice]:
    """Places of the rows of [N, classes], so many at a time."""
    step = max(1, BLOCK_BYTES // (8 * max(1, logits.shape[1])))
    for start in range(0, len(logits), step):
        yield slice(start, min(len(logits), start + step))
        pulse.beat()


class Probabilities:
    """Those of logits [N, classes], as `softmax` in double precision gives them."""

    def __init__(self, logits: Tensor) -> None:
        self._logits = logits
        self._highest = logits.amax(1).double()
        self._sums = torch.empty_like(self._highest)
        for rows in row_blocks(logits):
            self._sums[rows] = (logits[rows].double() - self._highest[rows, None]).exp().sum(1)

    def of_class(self, place: int) -> Floats:
        """[N]: of one class. Whoever goes through many says so here that it gets on."""
        pulse.beat()
        found: Floats = ((self._logits[:, place].double() - self._highest).exp() / self._sums).numpy()
        return found

    def of_rows(self, classes: Tensor) -> Floats:
        """[N]: of the class of each row, by their numbers."""
        taken = self._logits.gather(1, classes[:, None]).squeeze(1).double()
        found: Floats = ((taken - self._highest).exp() / self._sums).numpy()
        return found

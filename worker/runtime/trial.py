"""The try of a model before the training: whether it fits the data and the memory, and how long its steps will be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import nn

from worker.memory_words import Phase
from worker.runtime import memory
from worker.runtime.data import Dataset

if TYPE_CHECKING:
    from worker.runtime.run import Run

ROWS = 32
STEP_FORWARDS = 3
"""Time of a step over that of its forward pass."""


class Trial:
    """What the try of this rank has shown by now; reported right away, as a rank out of memory cannot report."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.found: memory.RowsTried | None = None

    def make(self, net: nn.Module, dataset: Dataset) -> None:
        """Try `net`, which is on the mode's home, on a few rows.

        Raises `ProgramFailure` where it does not fit the data.
        """
        run = self.run
        outputs = int(run.spec.with_shape(dataset.shape).shape.outputs)
        rows, limits = min(ROWS, self._rows_here), (run.settings.memory_bytes, run.settings.device_ranks)
        memory.rows_try(net, dataset.train, outputs, run.mode.home, rows, *limits, self._tell)

    @property
    def _rows_here(self) -> int:
        """Rows of this rank in a step, about."""
        return max(memory.LEAST_ROWS, self.run.batch_size // self.run.world_size)

    @property
    def step_s(self) -> float:
        """Seconds that a step of this rank will take, about; 0 before the try."""
        if self.found is None:
            return 0.0
        return STEP_FORWARDS * self.found.row_s * self._rows_here * self.run.settings.slowdown

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of the model's outputs, in sentences."""
        return () if self.found is None else self.found.notes

    def fitting_batch(self) -> int | None:
        """A batch size that would fit the memory there is; None if that is not known."""
        run = self.run
        return None if self.found is None else memory.fitting_batch(run.batch_size, self.found, run.world_size)

    def _tell(self, found: memory.RowsTried | None) -> None:
        self.found = found
        teller = self.run.teller
        teller.progress(Phase.LOADING, fitting_batch=self.fitting_batch() or 0)
        teller.alive(expected_step_s=self.step_s)

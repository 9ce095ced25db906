"""The operators of a step at several numbers of rows at once, as columns of numbers.

Each figure is the one that `workload.at_batch` gives the operator at so many rows; all rows in one go, because an offer
looks at some dozens of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from scheduler.workload import OpClass, Operator, Workload

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """Figures come as [numbers of rows, operators]."""

    operators: tuple[Operator, ...]
    """Each once, in the order in which they come first."""
    repeats: Floats
    """How often each comes; where each is a step of its own: [steps, operators]."""
    more: Floats
    """[numbers of rows, 1]: rows above those of the trace."""

    @staticmethod
    def of(workload: Workload, rows: Sequence[int]) -> Columns:
        """Of a step on each of `rows`. Repeats read from JSON are the same object, so they are counted by identity."""
        different = {id(operator): operator for operator in workload.operators}
        counts = Counter(map(id, workload.operators))
        more = np.array(rows, dtype=float)[:, None] - workload.batch_size
        return Columns(tuple(different.values()), np.array([counts[key] for key in different], dtype=float), more)

    @staticmethod
    def apart(workload: Workload) -> Columns:
        """Each different operator as a step of its own, at the rows of the trace."""
        different = {id(operator): operator for operator in workload.operators}
        return Columns(tuple(different.values()), np.eye(len(different)), np.zeros((1, 1)))

    def where(self, wanted: Callable[[Operator], bool]) -> Columns:
        """Some of the operators."""
        kept = [place for place, operator in enumerate(self.operators) if wanted(operator)]
        if len(kept) == len(self.operators):
            return self
        return Columns(tuple(self.operators[place] for place in kept), self.repeats[..., kept], self.more)

    def only(self, *ops: OpClass) -> Columns:
        """Those of some classes."""
        return self.where(lambda operator: operator.op in ops)

    @cached_property
    def flops(self) -> Floats:
        """Of the forward pass of each operator."""
        return self._figure("flops")

    @cached_property
    def moved_bytes(self) -> Floats:
        """Read and written by each operator."""
        return self._figure("read_bytes") + self._figure("write_bytes")

    def shape(self, name: str, missing: float) -> Floats:
        """An entry of the shape of each operator; `missing` of those without it."""
        slopes = [item.per_row.get(name, 0.0) if name in item.shape else 0.0 for item in self.operators]
        return self._moved([item.shape.get(name, missing) for item in self.operators], slopes)

    def _figure(self, name: str) -> Floats:
        now = [getattr(operator, name) for operator in self.operators]
        return self._moved(now, [operator.per_row.get(name, 0.0) for operator in self.operators])

    def _moved(self, now: Sequence[float], slopes: Sequence[float]) -> Floats:
        moved: Floats = np.maximum(0.0, np.array(now, dtype=float) + self.more * np.array(slopes, dtype=float))
        return moved

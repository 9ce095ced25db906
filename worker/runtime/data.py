"""What `data.load` of a program returns: rows in memory, split into three parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor


class DataError(Exception):
    """The data is at fault. `message` names row, column or file; `hint` is the next step."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True)
class Part:
    """Rows of one part (train, val or test), ready to be indexed into batches.

    Raises `ValueError` if the tensors disagree about the number of rows.
    """

    inputs: tuple[Tensor, ...]
    """What `forward(*inputs)` takes; first dimension N each."""
    targets: Tensor
    """[N]: int64 class numbers, or float32 standardised values."""
    rows: Tensor
    """[N] int64: 0-based row in the packed file."""
    values: Tensor | None = None
    """[N] float64: numbers to predict as the data has them, which the targets are rounded from. None: of classes, and
    where the program keeps none."""
    base: Tensor | None = None
    """[N] float64: what is added to the answers, in the data's unit: a forecast learns the difference to it. The
    `values` are with it, the targets without."""

    def __post_init__(self) -> None:
        more = [tensor for tensor in (self.values, self.base) if tensor is not None]
        lengths = {len(tensor) for tensor in (*self.inputs, self.targets, self.rows, *more)}
        if len(lengths) != 1:
            raise ValueError(f"inputs, targets and rows must have the same number of rows, not {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, index: Tensor | slice) -> Part:
        """The rows of `index`, in its order."""
        values, base = (None if more is None else more[index] for more in (self.values, self.base))
        inputs = tuple(tensor[index] for tensor in self.inputs)
        return Part(inputs, self.targets[index], self.rows[index], values, base)

    def evenly(self, count: int) -> Part:
        """So many of its rows, evenly spaced."""
        # in float32 the last of more than 2^24 rows may be one that is not there
        return self.take(torch.linspace(0, len(self) - 1, count, dtype=torch.float64).round().long())

    def to(self, device: torch.device) -> Part:
        """The same rows on `device`; `rows`, `values` and `base` stay on the CPU."""
        inputs = tuple(tensor.to(device) for tensor in self.inputs)
        return replace(self, inputs=inputs, targets=self.targets.to(device))

    @property
    def rows_digest(self) -> str:
        """Tells which rows these are, in whatever order."""
        return blake2b(np.sort(self.rows.numpy().astype(np.int64)).data, digest_size=16).hexdigest()

    @property
    def row_bytes(self) -> int:
        """Memory of one row of inputs and targets."""
        tensors = (*self.inputs, self.targets)
        return sum(tensor.element_size() * (tensor.numel() // max(1, len(tensor))) for tensor in tensors)


@dataclass(frozen=True)
class Dataset:
    """All parts, and what is needed to treat new rows the same way."""

    train: Part
    val: Part
    test: Part
    classes: Sequence[str] = ()
    """Class names by class number; empty for regression."""
    preprocess: dict[str, Any] = field(default_factory=dict)
    """JSON values that `data.transform` needs. For regression it holds `target_mean` and `target_std`:
    value = standardised * target_std + target_mean."""
    shape: dict[str, Any] = field(default_factory=dict)
    """Updates for `spec.shape` that only the rows tell, e.g. `cardinalities`."""
    notes: Sequence[str] = ()
    """What a person should know of how the rows were shared out, in sentences."""
    split: str = ""
    """How rows were chosen for the parts, in sentences; empty: not told."""
    known: Mapping[str, pa.Table] = field(default_factory=dict)
    """By part: what results show beside its rows, where a row is not one of the packed file."""
    moments: Mapping[str, pa.Table] = field(default_factory=dict)
    """By part, of a forecast: series, time, steps ahead, and what each simple forecast says."""

    @property
    def held_out(self) -> str:
        """Tells which rows are kept from training: those of validation, and those of the test."""
        return f"{self.val.rows_digest}-{self.test.rows_digest}"

    @property
    def target_mean(self) -> float:
        """Mean taken off the targets (0 for classification)."""
        return float(self.preprocess.get("target_mean", 0.0))

    @property
    def target_std(self) -> float:
        """What the targets were divided by (1 for classification)."""
        return float(self.preprocess.get("target_std", 1.0))

    def exact_targets(self, part: Part) -> Tensor:
        """Its targets, of numbers in double precision as far as the program keeps them: what metrics are made of."""
        if part.values is None:
            return part.targets
        values = part.values if part.base is None else part.values - part.base
        return (values - self.target_mean) / self.target_std

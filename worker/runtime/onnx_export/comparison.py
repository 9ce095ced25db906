"""Whether the ONNX model answers as the trained one does, on real rows, by onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from worker.runtime.onnx_export.portable import Input, Portable
from worker.runtime.onnx_export.reasons import CannotExport

ABSOLUTE, RELATIVE = 1e-4, 1e-3
"""Largest difference of a logit, or of a value in standard deviations of the target: ABSOLUTE + RELATIVE * |value|."""
COUNTS = (1, 3)
"""Rows given at once, beside all of them: any number must do."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What came of it."""

    rows: int
    largest_difference: float
    """Of a logit; of a regression in standard deviations of the target."""
    absolute_tolerance: float = ABSOLUTE
    relative_tolerance: float = RELATIVE

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def compare(model: Path, portable: Portable, tensors: Sequence[Tensor], inputs: Sequence[Input]) -> Comparison:
    """Have both answer for the rows in `tensors`. Raises `CannotExport` where they differ by more than allowed."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(model), _options(), providers=["CPUExecutionProvider"])
    rows = len(tensors[0])
    largest = 0.0
    for count in (*(count for count in COUNTS if count < rows), rows):
        given = {each.name: tensors[each.place][:count] for each in inputs}
        expected = answer(portable, list(given.values()))
        found = _standard(portable, session.run(None, {name: tensor.numpy() for name, tensor in given.items()})[0])
        if found.shape != expected.shape:
            raise CannotExport.other_shape(count)
        largest = max(largest, _difference(expected, found, rows=count))
    return Comparison(rows=rows, largest_difference=largest)


def answer(portable: Portable, given: Sequence[Tensor]) -> np.ndarray:
    """What PyTorch says: logits, or values in standard deviations."""
    with torch.no_grad():
        first: Tensor = portable(*given)[0]
    return _standard(portable, first.numpy())


def _standard(portable: Portable, values: np.ndarray) -> np.ndarray:
    """Logits as they are; predicted values without the mean and unit of the target, which would hide a difference."""
    return values if portable.is_classification else (values - portable.mean) / portable.std


def _options() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()  # else one for each core of the host, each pinned to its own
    options.inter_op_num_threads = 1
    return options


def _difference(expected: np.ndarray, found: np.ndarray, rows: int) -> float:
    difference = np.abs(expected - found)
    if not (difference <= ABSOLUTE + RELATIVE * np.abs(expected)).all():  # NaN is none of these
        raise CannotExport.different(float(np.nanmax(difference, initial=0.0)), rows)
    return float(difference.max(initial=0.0))

"""What is exported: the model with its last step (probabilities, or values in the target's own unit), inputs named."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

CLASSIFICATION_OUTPUTS = ("logits", "probabilities")
REGRESSION_OUTPUTS = ("prediction",)
AXIS = "batch"
"""Name of the first dimension of every input and output: any number of rows."""


@dataclass(frozen=True, kw_only=True)
class Input:
    """One input of the ONNX model."""

    name: str
    place: int
    """Which of the tensors that `data.transform` returns it is."""
    dtype: str
    row_shape: tuple[int, ...]
    """Without the first dimension."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values; the shape with the name of its free dimension."""
        return {"name": self.name, "place": self.place, "dtype": self.dtype, "shape": [AXIS, *self.row_shape]}


def inputs_of(net: nn.Module, tensors: Sequence[Tensor], outputs: Sequence[str]) -> tuple[Input, ...]:
    """The tensors that hold something, called as `forward` calls them where that gives each a name of its own."""
    given = [name for name in inspect.signature(net.forward).parameters if name not in outputs]
    named = given if len(given) == len(tensors) else [f"input_{place}" for place in range(len(tensors))]
    return tuple(
        Input(
            name=named[place],
            place=place,
            dtype=str(tensor.dtype).removeprefix("torch."),
            row_shape=tuple(tensor.shape[1:]),
        )
        for place, tensor in enumerate(tensors)
        if 0 not in tensor.shape[1:]
    )


class Portable(nn.Module):
    """Takes the inputs that hold something, and answers as predict.py does.

    Of a table without categories (or without numbers) the empty tensor [batch, 0] is made here, so that the ONNX model
    has no input in which nothing can stand.
    """

    def __init__(
        self, net: nn.Module, tensors: Sequence[Tensor], preprocess: dict[str, Any], *, is_classification: bool
    ) -> None:
        super().__init__()
        self.net = net
        self.is_classification = is_classification
        self.mean = float(preprocess.get("target_mean", 0.0))
        self.std = float(preprocess.get("target_std", 1.0))
        self.empty = {
            place: (tuple(tensor.shape[1:]), tensor.dtype)
            for place, tensor in enumerate(tensors)
            if 0 in tensor.shape[1:]
        }

    @property
    def output_names(self) -> tuple[str, ...]:
        """In the order in which `forward` returns them."""
        return CLASSIFICATION_OUTPUTS if self.is_classification else REGRESSION_OUTPUTS

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        """(logits, probabilities), float32 [batch, classes] each, or (prediction float64 [batch],)."""
        outputs = self.net(*self._all(given))
        if self.is_classification:
            return outputs, torch.softmax(outputs, 1)
        return (outputs.squeeze(1).double() * self.std + self.mean,)

    def _all(self, given: Sequence[Tensor]) -> list[Tensor]:
        waiting = iter(given)
        return [
            given[0].new_zeros((given[0].shape[0], *self.empty[place][0]), dtype=self.empty[place][1])
            if place in self.empty
            else next(waiting)
            for place in range(len(given) + len(self.empty))
        ]

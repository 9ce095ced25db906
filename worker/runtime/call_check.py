"""Whether a model takes what the data gives, told by file and line before the call; what its answer looks like."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor, nn

from worker.events import FailureCode
from worker.runtime.failures import ProgramFailure

SUM_TOLERANCE = 1e-3
"""Sixteen bits and many classes included; values before a softmax do not sum to one on every row."""


def check_call(net: nn.Module, inputs: Sequence[Tensor]) -> None:
    """Raise `ProgramFailure` where `net(*inputs)` does not fit the parameters of its `forward`."""
    try:
        signature = inspect.signature(net.forward)
    except (ValueError, TypeError):
        return  # compiled: only the call itself can tell
    try:
        signature.bind(*inputs)
    except TypeError as error:
        names = ", ".join(names_of(inputs))
        kinds = ", ".join(f"{str(tensor.dtype).removeprefix('torch.')} {_shape(tensor)}" for tensor in inputs)
        message = (
            f"forward{signature} of {type(net).__name__} does not take what a batch of this data holds ({error}): "
            f"it is called as net({names}), with {kinds}."
        )
        place = _place(net)
        write = "Write it as" if place else f"Put the {type(net).__name__} into a module of your own with"
        hint = f"{write} `def forward(self, {names})`; it may ignore what it does not need."
        raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, hint, place=place) from None


def names_of(inputs: Sequence[Tensor]) -> list[str]:
    """What the generated programs call such inputs."""
    floating = [tensor.is_floating_point() for tensor in inputs]
    if floating == [True, False]:
        return ["numeric", "categorical"]
    if len(inputs) == 1:
        return ["pictures" if inputs[0].dim() == 4 else "rows"]
    return [f"input_{number}" for number in range(1, len(inputs) + 1)]


def notes_on_outputs(outputs: Tensor) -> tuple[str, ...]:
    """What a person should know of the outputs [rows, outputs] of a model before it is trained, in sentences."""
    values = outputs.detach().float()
    if values.shape[1] < 2 or not bool((values >= 0).all()):
        return ()
    if not bool(((values.sum(1) - 1).abs() <= SUM_TOLERANCE).all()):
        return ()
    return (
        "The outputs of the model are probabilities already: each row sums to 1. The loss and predict.py apply a "
        "softmax themselves, so it learns badly and is never sure of anything. Return the values before the softmax.",
    )


def _shape(tensor: Tensor) -> str:
    return f"[{', '.join(['rows', *map(str, tensor.shape[1:])])}]"


def _place(net: nn.Module) -> tuple[str, int] | None:
    """File and line of its `forward`, where the program itself has it."""
    code = getattr(getattr(net.forward, "__func__", net.forward), "__code__", None)
    model = getattr(sys.modules.get("model"), "__file__", None)
    if code is None or model is None or Path(code.co_filename).resolve().parent != Path(model).resolve().parent:
        return None
    return Path(code.co_filename).name, code.co_firstlineno

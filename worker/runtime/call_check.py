"""Whether a model can be called with what the data gives: found out before the call, and told by file and line."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor, nn

from worker.events import FailureCode
from worker.runtime.failures import ProgramFailure


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
        hint = f"Write it as `def forward(self, {names})`; what it has no use for it may leave aside."
        raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, hint, place=_place(net)) from None


def names_of(inputs: Sequence[Tensor]) -> list[str]:
    """What the generated programs call such inputs."""
    floating = [tensor.is_floating_point() for tensor in inputs]
    if floating == [True, False]:
        return ["numeric", "categorical"]
    if len(inputs) == 1:
        return ["pictures" if inputs[0].dim() == 4 else "rows"]
    return [f"input_{number}" for number in range(1, len(inputs) + 1)]


def _shape(tensor: Tensor) -> str:
    return f"[{', '.join(['rows', *map(str, tensor.shape[1:])])}]"


def _place(net: nn.Module) -> tuple[str, int] | None:
    """File and line of its `forward`, where the program itself has it."""
    code = getattr(getattr(net.forward, "__func__", net.forward), "__code__", None)
    model = getattr(sys.modules.get("model"), "__file__", None)
    if code is None or model is None or Path(code.co_filename).resolve().parent != Path(model).resolve().parent:
        return None
    return Path(code.co_filename).name, code.co_firstlineno

"""What a checkpoint can hold of a program's own parts, and what is said of one that does not fit them.

It is read again by torch's restricted loader, which makes tensors, numbers, texts and collections of them, and runs no
code: what else was written would make each checkpoint one that nobody can go on from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from worker.events import FailureCode
from worker.runtime.failures import ProgramFailure

LEAVES = (int, float, bool, str, type(None), complex, bytes, bytearray, torch.dtype, torch.device)
COLLECTIONS = (list, tuple, set, torch.Size)


def parts_check(states: Mapping[str, Any]) -> None:
    """Pass if the states can be read again. Raises `ProgramFailure` that names the part and what is none of these."""
    for name, state in states.items():
        if found := _odd(state, ""):
            place, kind = found
            message = f"run.restore({name}=...): {name}.state_dict(){place} is a {kind}, which no checkpoint can hold."
            hint = "Keep tensors, plain numbers, texts, and lists and dicts of them there: float(x) of a NumPy number."
            raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, hint)


def _odd(value: Any, place: str) -> tuple[str, str] | None:
    """(where it is, its type) of the first value that is not read again."""
    kind = type(value)  # a NumPy number is a float as well
    if isinstance(value, torch.Tensor) or kind in LEAVES:
        return None
    if isinstance(value, dict):
        each = [*((key, f"{place} key {key!r:.40}") for key in value), *_items(value.items(), place)]
    elif kind in COLLECTIONS:
        each = _items(enumerate(value), place)
    else:
        return place, f"{kind.__module__}.{kind.__qualname__}"
    return next((found for one, at in each if (found := _odd(one, at))), None)


def _items(pairs: Any, place: str) -> list[tuple[Any, str]]:
    return [(one, f"{place}[{key!r:.40}]") for key, one in pairs]


def other_model(name: str, error: Exception) -> ProgramFailure:
    """What is said where the parts of a checkpoint are not those of the program."""
    said = " ".join(str(error).split())[:300]
    message = f"Checkpoint {name} does not fit the model or its optimizer: {said}"
    hint = "Undo the change of the program, or start over: python train.py --fresh"
    return ProgramFailure(FailureCode.PROGRAM_ERROR, message, hint)

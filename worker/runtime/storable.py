"""What a checkpoint can hold of a program's own parts, and what is said of one that does not fit them.

It is read again by torch's restricted loader, which makes tensors, numbers, texts and collections of them, and runs no
code: what else was written would make each checkpoint one that nobody can go on from.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import torch

from worker.events import FailureCode
from worker.runtime.failures import ProgramFailure

LEAVES = frozenset(
    {int, float, bool, str, type(None), complex, bytes, bytearray}
    | {torch.dtype, torch.device, torch.layout, torch.qscheme}
)
DICTS = frozenset({dict, OrderedDict, Counter})
"""A `defaultdict` is not among them."""
COLLECTIONS = frozenset({list, tuple, set, torch.Size})


def parts_check(states: Mapping[str, Any]) -> None:
    """Pass if the states can be read again. Raises `ProgramFailure` that names the part and what is none of these."""
    for name, state in states.items():
        if found := _odd(state, set()):
            place, kind = found
            message = f"run.restore({name}=...): {name}.state_dict(){place} is a {kind}, which no checkpoint can hold."
            hint = "Keep tensors, plain numbers, texts, and lists and dicts of them there: float(x) of a NumPy number."
            raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, hint)


def _odd(value: Any, around: set[int]) -> tuple[str, str] | None:
    """(where it is, its type) of the first value that is not read again. `around`: ids of what the value lies in."""
    kind = type(value)  # a NumPy number is a float as well
    if isinstance(value, torch.Tensor) or kind in LEAVES:
        return None
    if kind not in DICTS and kind not in COLLECTIONS:
        return "", f"{kind.__module__}.{kind.__qualname__}"
    if id(value) in around:
        return "", f"{kind.__qualname__} that lies in itself"
    around.add(id(value))
    found = _odd_within(value, around)
    around.discard(id(value))
    return found


def _odd_within(value: Any, around: set[int]) -> tuple[str, str] | None:
    """The same of what a collection holds. Places are put into words on the way back alone: there may be millions."""
    is_dict = type(value) in DICTS
    if LEAVES.issuperset(map(type, chain(value, value.values()) if is_dict else value)):
        return None
    for key in value if is_dict else ():
        if found := _odd(key, around):
            return f" key {key!r:.40}{found[0]}", found[1]
    pairs: Iterable[tuple[Any, Any]] = value.items() if is_dict else enumerate(value)
    for key, one in pairs:
        if found := _odd(one, around):
            return f"[{key!r:.40}]{found[0]}", found[1]
    return None


def other_model(name: str, error: Exception) -> ProgramFailure:
    """What is said where the parts of a checkpoint are not those of the program."""
    said = " ".join(str(error).split())[:300]
    message = f"Checkpoint {name} does not fit the model or its optimizer: {said}"
    hint = "Undo the change of the program, or start over: python train.py --fresh"
    return ProgramFailure(FailureCode.PROGRAM_ERROR, message, hint)

"""A nested state as JSON and bare numbers: how a rank sends one to others, which unpickle nothing.

The outline tells of every value its type, and of every tensor its kind, shape and order in memory; the numbers of the
tensors follow one after another. What is no such outline makes a `ValueError`, whatever else a peer may have sent.
"""

from __future__ import annotations

import json
import struct
from collections import Counter, OrderedDict
from typing import Any

import torch
from torch import Tensor

_LENGTH = struct.Struct("<Q")
_NAMED = {"dtype": torch.dtype, "layout": torch.layout, "qscheme": torch.qscheme}
"""Values of which torch has one for each name."""


def outline_of(value: Any, tensors: list[Tensor]) -> bytes:
    """The outline of a nested value; `tensors` takes its tensors, in order.

    Raises `TypeError` for what a checkpoint could not hold either.
    """
    return json.dumps(_told(value, tensors), separators=(",", ":")).encode()


def made_of(outline: bytes, tensors: list[Tensor]) -> Any:
    """The nested value with tensors on the CPU that have a place for their numbers; `tensors` takes them, in order.

    Raises `ValueError`.
    """
    try:
        return _made(json.loads(outline), tensors)
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError, RecursionError) as error:
        raise ValueError(f"what another rank sent is no outline of a state: {error}") from error


@torch.no_grad()
def packed(value: Any) -> bytearray:
    """The nested value, whole. Raises `TypeError`."""
    tensors: list[Tensor] = []
    outline = outline_of(value, tensors)
    place = _LENGTH.size + len(outline)
    body = bytearray(place + sum(tensor.numel() * tensor.element_size() for tensor in tensors))
    body[:place] = _LENGTH.pack(len(outline)) + outline
    for tensor in tensors:
        place = _copy(body, place, tensor, out=True)
    return body


@torch.no_grad()
def unpacked(body: bytearray) -> Any:
    """Inverse of `packed`. Raises `ValueError`."""
    tensors: list[Tensor] = []
    try:
        place = _LENGTH.size + _LENGTH.unpack_from(body)[0]
    except struct.error as error:
        raise ValueError("what another rank sent is no state: it is too short") from error
    value = made_of(bytes(body[_LENGTH.size : place]), tensors)
    if place + sum(tensor.numel() * tensor.element_size() for tensor in tensors) != len(body):
        raise ValueError("what another rank sent is no state: its numbers are not those of its outline")
    for tensor in tensors:
        place = _copy(body, place, tensor, out=False)
    return value


def flat(tensor: Tensor) -> Tensor:
    """Its bytes as they lie in memory; of one with gaps those of a copy without."""
    tensor = tensor.resolve_conj()
    if tensor.stride() != torch.empty_like(tensor, device="meta").stride():
        tensor = torch.empty_like(tensor).copy_(tensor)
    outermost_first = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    return tensor.permute(outermost_first).reshape(-1).view(torch.uint8)


def _copy(body: bytearray, place: int, tensor: Tensor, *, out: bool) -> int:
    """Between a tensor and the bytes from `place` on; where the next one begins."""
    size = tensor.numel() * tensor.element_size()
    if size:
        there, here = torch.frombuffer(body, dtype=torch.uint8, count=size, offset=place), flat(tensor)
        there.copy_(here) if out else here.copy_(there)
    return place + size


def _told(value: Any, tensors: list[Tensor]) -> Any:
    """Numbers, words and None are themselves; of all else the first item of a list says what it is."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        tensors.append(value.detach())
        # the order in memory is kept: fused optimizers count on that of their weights
        return ["tensor", _name(value.dtype), list(value.shape), list(torch.empty_like(value, device="meta").stride())]
    if isinstance(value, dict):
        pairs = [[_told(key, tensors), _told(item, tensors)] for key, item in value.items()]
        if isinstance(value, OrderedDict):  # of a module: it carries the versions of its layers
            return ["ordered", pairs, _told(getattr(value, "_metadata", None), tensors)]
        return ["counter" if isinstance(value, Counter) else "dict", pairs]
    if isinstance(value, list | tuple | set):
        kind = "list" if isinstance(value, list) else "tuple" if isinstance(value, tuple) else "set"
        return [kind, [_told(item, tensors) for item in value]]
    if isinstance(value, bytes | bytearray):
        return ["bytes", value.hex()]
    if isinstance(value, complex):
        return ["complex", value.real, value.imag]
    if isinstance(value, torch.device):
        return ["device", str(value)]
    for kind, type_ in _NAMED.items():
        if isinstance(value, type_):
            return [kind, _name(value)]
    raise TypeError(f"a state holds a {type(value).__name__}, which is not sent to other ranks")


def _made(told: Any, tensors: list[Tensor]) -> Any:
    if not isinstance(told, list):
        return told
    kind, *rest = told
    match kind, rest:
        case "tensor", [dtype, shape, stride]:
            tensors.append(torch.empty_strided(shape, stride, dtype=_named("dtype", dtype)))
            return tensors[-1]
        case "ordered", [pairs, metadata]:
            made = OrderedDict((_made(key, tensors), _made(item, tensors)) for key, item in pairs)
            if metadata is not None:
                made._metadata = _made(metadata, tensors)  # type: ignore[attr-defined]
            return made
        case (("dict" | "counter"), [pairs]):
            values = {_made(key, tensors): _made(item, tensors) for key, item in pairs}
            return Counter(values) if kind == "counter" else values
        case (("list" | "tuple" | "set"), [items]):
            return {"list": list, "tuple": tuple, "set": set}[kind](_made(item, tensors) for item in items)
        case "bytes", [digits]:
            return bytes.fromhex(digits)
        case "complex", [real, imaginary]:
            return complex(real, imaginary)
        case "device", [name]:
            return torch.device(name)
        case (("dtype" | "layout" | "qscheme"), [name]):
            return _named(kind, name)
    raise ValueError(f"{kind!r} is no kind of value")


def _name(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _named(kind: str, name: str) -> Any:
    found = getattr(torch, name)
    if not isinstance(found, _NAMED[kind]):
        raise ValueError(f"{name!r} is no {kind}")
    return found

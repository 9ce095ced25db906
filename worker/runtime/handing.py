"""One rank's nested state on every rank, piece by piece.

A state is as large as weights and optimizer together. Pickled and sent whole it stood in the memory of the first rank
four times, and of the others twice, just when a run starts again; here it stands there once.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from worker.runtime.collective import Group, broadcast_bytes, gather_bytes

BLOCK_BYTES = 32 << 20
"""Sent at once; so much more than the state a rank needs for a moment."""


def state_handed(group: Group, rank: int, state: Any, source: int = 0) -> Any:
    """What rank `source` holds, on every rank: there the same object, elsewhere its like. Tensors lie on the CPU.

    Every rank calls it; `state` counts on the source alone. Raises `PeerLost`.
    """
    tensors: list[Tensor] = []
    here = rank == source
    outline = _sent(group, _saved(_outlined(state, tensors)) if here else b"", source)
    if not here:
        state = _made(torch.load(io.BytesIO(outline), weights_only=True), tensors)
    for block in _blocks(tensors):
        _block_hand(group, block, here=here, source=source)
    return state


def _outlined(value: Any, tensors: list[Tensor]) -> Any:
    """The nested value with tensors that have a shape alone; `tensors` takes the real ones, in order.

    The order of a tensor's elements in memory is kept: fused optimizers count on that of their weights.
    """
    if isinstance(value, Tensor):
        tensors.append(value)
        return torch.empty_like(value, device="meta")
    return _each(value, lambda item: _outlined(item, tensors))


def _made(value: Any, tensors: list[Tensor]) -> Any:
    """The nested value with tensors that have a place for their numbers; `tensors` takes them, in order."""
    if isinstance(value, Tensor):
        tensors.append(torch.empty_strided(value.size(), value.stride(), dtype=value.dtype))
        return tensors[-1]
    return _each(value, lambda item: _made(item, tensors))


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, OrderedDict):  # of a module: it carries the versions of its layers as attributes
        made: OrderedDict[Any, Any] = OrderedDict((key, change(item)) for key, item in value.items())
        vars(made).update(vars(value))
        return made
    if isinstance(value, dict):
        return {key: change(item) for key, item in value.items()}
    return type(value)([change(item) for item in value]) if isinstance(value, list | tuple) else value


def _saved(outline: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(outline, buffer)
    return buffer.getvalue()


def _sent(group: Group, body: bytes, source: int) -> bytes:
    return broadcast_bytes(group, body) if source == 0 else gather_bytes(group, body)[source]


def _blocks(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Bytes of all tensors one after another, as pieces of them that make up `BLOCK_BYTES` together."""
    block, room = [], BLOCK_BYTES
    for tensor in tensors:
        left = _flat(tensor)
        while len(left):
            block.append(left[:room])
            left = left[room:]
            room -= len(block[-1])
            if not room:
                yield block
                block, room = [], BLOCK_BYTES
    if block:
        yield block


def _flat(tensor: Tensor) -> Tensor:
    """Its bytes as they lie in memory; of one with gaps those of a copy without."""
    if tensor.stride() != torch.empty_like(tensor, device="meta").stride():
        tensor = torch.empty_like(tensor).copy_(tensor)
    outermost_first = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    return tensor.permute(outermost_first).reshape(-1).view(torch.uint8)


def _block_hand(group: Group, pieces: list[Tensor], *, here: bool, source: int) -> None:
    """Bring one block from the source into the pieces of the others."""
    size = sum(map(len, pieces))
    whole = torch.cat(pieces) if here else torch.zeros(size, dtype=torch.uint8)
    if source == 0:
        group.broadcast_(whole)
    else:
        whole = group.gather(whole if here else whole[:1])[source : source + size]  # one byte of each before it
    if not here:
        for piece, sent in zip(pieces, torch.split(whole, [len(piece) for piece in pieces]), strict=True):
            piece.copy_(sent)

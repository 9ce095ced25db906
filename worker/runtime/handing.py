"""One rank's nested state on every rank, piece by piece.

A state is as large as weights and optimizer together. Pickled and sent whole it stood in the memory of the first rank
four times, and of the others twice, just when a run starts again; here it stands there once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from worker.runtime.collective import Group, broadcast_bytes, gather_bytes
from worker.runtime.outline import flat, made_of, outline_of

BLOCK_BYTES = 32 << 20
"""Sent at once; so much more than the state a rank needs for a moment."""


def state_handed(group: Group, rank: int, state: Any, source: int = 0) -> Any:
    """What rank `source` holds, on every rank: there the same object, elsewhere its like. Tensors lie on the CPU.

    Every rank calls it; `state` counts on the source alone. Raises `PeerLost`, and `ValueError` for what is no state.
    """
    tensors: list[Tensor] = []
    here = rank == source
    outline = _sent(group, outline_of(state, tensors) if here else b"", source)
    if not here:
        state = made_of(outline, tensors)
    for block in _blocks(tensors):
        _block_hand(group, block, here=here, source=source)
    return state


def _sent(group: Group, body: bytes, source: int) -> bytes:
    return broadcast_bytes(group, body) if source == 0 else gather_bytes(group, body)[source]


def _blocks(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Bytes of all tensors one after another, as pieces of them that make up `BLOCK_BYTES` together."""
    block, room = [], BLOCK_BYTES
    for tensor in tensors:
        left = flat(tensor)
        while len(left):
            block.append(left[:room])
            left = left[room:]
            room -= len(block[-1])
            if not room:
                yield block
                block, room = [], BLOCK_BYTES
    if block:
        yield block


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

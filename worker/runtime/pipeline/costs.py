"""What each piece of a model costs here: timed forward and backward passes, and what they keep."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from worker.runtime.device import settled_s
from worker.runtime.pipeline.blocks import Chain
from worker.runtime.pipeline.stage import least_rows
from worker.stages import Block

REPEATS = 3
"""Passes of each piece, of which the fastest counts."""
MOST_ROWS = 128
LEAST_PASSES, COMPARED_S = 2, 0.05
"""By which devices are compared: the fastest of so many passes, and of all that fit in so long."""


def measured_blocks(chain: Chain, inputs: Sequence[Tensor], batch: int, device: torch.device) -> list[Block]:
    """Time each piece on `device`, on two numbers of rows: what does not grow with them is its fixed part.

    Pieces visit the device one after another, so that a model is timed that no device holds as a whole. Nothing of
    the model changes, neither batch statistics nor random states.
    """
    least = least_rows(chain.net)
    rows = max(2 * least, min(batch, MOST_ROWS))
    less = max(least, rows // 4)
    tensors = [tensor[torch.arange(rows) % len(tensor)].to(device) for tensor in inputs]
    cuda = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda), kept_buffers(chain.net):
        large = _passes(chain, tensors)
        small = _passes(chain, [tensor[:less] for tensor in tensors])
    chain.net.zero_grad(set_to_none=True)
    blocks = []
    for number, piece in enumerate(chain.pieces):
        (forward, backward, kept_bytes), (forward_less, backward_less, _) = large[number], small[number]
        forward_s, fixed_forward_s = _line(forward, forward_less, rows, less)
        backward_s, fixed_backward_s = _line(backward, backward_less, rows, less)
        module = chain.stage(number, number + 1)
        blocks.append(
            Block(
                name=piece.name,
                forward_s=forward_s,
                backward_s=backward_s,
                fixed_forward_s=fixed_forward_s,
                fixed_backward_s=fixed_backward_s,
                parameter_bytes=sum(weight.numel() * weight.element_size() for weight in module.parameters()),
                activation_bytes=kept_bytes / rows,
                output_bytes=piece.boundary.row_bytes,
            )
        )
    return blocks


def piece_s(chain: Chain, number: int, inputs: Sequence[Tensor], batch: int, device: torch.device) -> float:
    """Seconds of one piece, forward and backward, on `device`: the fastest of some passes, of which the first warms up.

    What comes in is made up, so that the pieces before it need not be computed.
    """
    rows = max(2, min(batch, MOST_ROWS))
    handed = tuple(tensor[torch.arange(rows) % len(tensor)].to(device) for tensor in inputs)
    if number:
        before = chain.pieces[number - 1].boundary
        handed = (before.enter(before.empty(rows, device).zero_()).detach().requires_grad_(),)
    module = chain.stage(number, number + 1).train().to(device)
    best_s, passes, began_s = float("inf"), 0, time.perf_counter()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), kept_buffers(chain.net):
        while passes < LEAST_PASSES or time.perf_counter() - began_s < COMPARED_S:
            best_s, passes = min(best_s, sum(_pass(module, handed)[2])), passes + 1
    chain.net.zero_grad(set_to_none=True)
    module.to(chain.home)
    return best_s


@contextmanager
def kept_buffers(net: nn.Module) -> Iterator[None]:
    """Batch statistics are afterwards what they were."""
    before = [
        (module, name, buffer.clone())
        for module in net.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    try:
        yield
    finally:
        for module, name, kept in before:
            module._buffers[name] = kept


def _passes(chain: Chain, inputs: Sequence[Tensor]) -> list[tuple[float, float, int]]:
    """(forward seconds, backward seconds, bytes kept) of each piece, handing on what it made."""
    found = []
    handed: tuple[Tensor, ...] = tuple(inputs)
    for number in range(len(chain.pieces)):
        module = chain.stage(number, number + 1).train().to(inputs[0].device)
        best, output, kept_bytes = (float("inf"), float("inf")), handed[0], 0
        for _ in range(REPEATS):
            output, kept_bytes, seconds = _pass(module, handed)
            best = min(best[0], seconds[0]), min(best[1], seconds[1])
        module.zero_grad(set_to_none=True)
        module.to(chain.home)
        found.append((*best, kept_bytes))
        handed = (output.detach().requires_grad_(),)
    return found


def _pass(module: nn.Module, inputs: Sequence[Tensor]) -> tuple[Tensor, int, tuple[float, float]]:
    kept: dict[int, int] = {}
    weights = {weight.data_ptr() for weight in module.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    device = inputs[0].device
    began_s = settled_s(device)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output: Tensor = module(*inputs)
    done_s = settled_s(device)
    torch.autograd.backward(output, torch.ones_like(output))
    return output, sum(kept.values()), (done_s - began_s, settled_s(device) - done_s)


def _line(large_s: float, small_s: float, rows: int, less: int) -> tuple[float, float]:
    """(seconds per row, fixed seconds) through two points; neither below 0."""
    row_s = min(large_s / rows, max(0.0, (large_s - small_s) / (rows - less)))
    return row_s, max(0.0, large_s - rows * row_s)

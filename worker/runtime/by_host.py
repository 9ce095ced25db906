"""Whether sums go from GPU to GPU by NCCL, or through the memory of the hosts by Gloo; and how a sum goes that way."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

CPU = "cpu"


class Pending(Protocol):
    """A sum on its way."""

    def wait(self) -> None:
        """Until the tensor holds the sum. Raises `PeerLost`."""


def device_name(device: torch.device) -> str:
    """Of a GPU its UUID, which no other one has, and what NCCL is told to take for the host of it; else `cpu`."""
    if device.type != "cuda":
        return CPU
    return f"{torch.cuda.get_device_properties(device).uuid} {os.environ.get('NCCL_HOSTID', '')}".strip()


def is_direct(names: Sequence[str]) -> bool:
    """Whether each of the ranks that these devices belong to has a GPU of its own: NCCL joins nothing else."""
    return CPU not in names and len(set(names)) == len(names)


class SumByHost:
    """A sum of copies in the host's memory, brought back to where the values are once it is there."""

    def __init__(self, tensor: Tensor, start: Callable[[Tensor], Pending]) -> None:
        self._tensor, self._copy = tensor, tensor.cpu()
        self._pending = start(self._copy)

    def wait(self) -> None:
        """Until the tensor holds the sum."""
        self._pending.wait()
        self._tensor.copy_(self._copy)

"""Running average of the weights (Polyak averaging), cheap enough for every step."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from worker.runtime.nested import real_view


class Ema:
    """Holds `net`, a copy whose floating tensors follow the trained ones: ema += (1 - decay) * (now - ema).

    The decay warms up as min(decay, (1 + n) / (10 + n)) over the updates n, so that short runs are not held back.
    A tensor with infinite values to begin with, a mask of an attention for one, has no average: it is taken as it is.
    """

    def __init__(self, net: nn.Module, decay: float) -> None:
        self.net = copy.deepcopy(net).eval().requires_grad_(False)
        self.decay = decay
        self.updates = 0
        self._averages = [real_view(tensor) for tensor in _floating(self.net)]
        self._taken = [number for number, tensor in enumerate(self._averages) if _is_infinite(tensor)]
        self._sources = _floating(net)
        self._owner = net

    @torch.no_grad()
    def update(self, net: nn.Module) -> None:
        """Move the average towards the weights of `net`."""
        if net is not self._owner:
            self._owner, self._sources = net, _floating(net)
        decay = min(self.decay, (1.0 + self.updates) / (10.0 + self.updates))
        sources = [real_view(tensor) for tensor in self._sources]  # each time: of a conjugated one that is a copy
        torch._foreach_lerp_(self._averages, sources, 1.0 - decay)
        for number in self._taken:
            self._averages[number].copy_(sources[number])
        self.updates += 1

    def state_dict(self) -> dict[str, Any]:
        """Averaged tensors and the count of updates."""
        return {"net": self.net.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self.net.load_state_dict(state["net"])
        self.updates = int(state["updates"])


def _is_infinite(tensor: Tensor) -> bool:
    """Whether some of its values are; those of a program that is only traced are not known."""
    return not isinstance(tensor, FakeTensor) and not bool(torch.isfinite(tensor).all())


def _floating(net: nn.Module) -> list[Tensor]:
    tensors = [weight.detach() for weight in net.parameters()] + list(net.buffers())
    return [tensor for tensor in tensors if tensor.is_floating_point() or tensor.is_complex()]

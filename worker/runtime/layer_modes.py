"""Which layers of a model train and which do not: a program may keep some as they are, batch normalisation for one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


class LayerModes:
    """The mode of each layer of a model, as it is now."""

    def __init__(self, net: nn.Module) -> None:
        self._modes = [(layer, layer.training) for layer in net.modules()]

    def restore(self) -> None:
        """Put each layer in that mode again."""
        for layer, training in self._modes:
            layer.training = training


@contextmanager
def evaluated(net: nn.Module) -> Iterator[None]:
    """Within it no layer trains; afterwards each is in the mode that it was in."""
    modes, was_training = LayerModes(net), net.training
    net.eval()
    try:
        yield
    finally:
        net.train(was_training)  # for layers that do more then than to remember it
        modes.restore()


def modes_follow(copy: nn.Module, net: nn.Module) -> None:
    """Have each layer of a copy of the model be in the mode of its like."""
    pairs = list(zip(copy.modules(), net.modules(), strict=True))
    if any(its.training != layer.training for its, layer in pairs):
        copy.train(net.training)
        for its, layer in pairs:
            its.training = layer.training

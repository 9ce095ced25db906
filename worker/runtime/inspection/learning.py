"""What of a model cannot learn, told before a run: layers without a gradient, outputs that no row changes.

Nothing here is an error, and nothing goes by names. What is so by chance alone, such as a last layer that starts with
zeros, is told apart by a second look at the model with its parameters shaken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

SHAKE = 0.05
"""Standard deviation of what is added to each parameter for the second look."""
NAMES_MAX = 4


@dataclass(frozen=True, kw_only=True)
class Learning:
    """What a step on a few rows told of a model."""

    rows: int
    trainable: tuple[str, ...] = ()
    """Names of parameters."""
    unused: frozenset[str] = frozenset()
    """Those without a gradient."""
    still: frozenset[str] = frozenset()
    """Those whose gradient is 0."""
    constant: str = ""
    """What makes the outputs the same for all rows; empty where they differ."""

    def notes(self, seen: Set[str]) -> Iterator[str]:
        """What a person should know, in sentences. `seen` got a gradient in train.py, whose loss may be another."""
        if unused := self.unused - seen:
            yield (
                f"{self._layers(unused)} no gradient: what is computed there does not reach the loss, so nothing is "
                "learned. Use its output in forward, leave it out, or set requires_grad = False where that is wanted."
            )
        if self.constant:
            yield (
                f"The outputs do not depend on the rows: all {self.rows} that were tried gave the same. "
                f"{self.constant} gives the same whatever comes in, as a softmax over one output does, which is always "
                "1. Nothing can be learned of the rows: leave that out."
            )
        elif still := self.still - seen:
            yield (
                f"{self._layers(still)} a gradient of exactly 0 for the {self.rows} rows that were tried: nothing is "
                "learned there from these. Look for a factor of 0, a softmax over one value, or a ReLU that lets "
                "nothing pass."
            )

    def _layers(self, names: Set[str]) -> str:
        """`` `model.head.2` gets ``: the outermost modules that hold nothing else that could be trained."""
        told = dict.fromkeys(self._outermost(name, names) for name in self.trainable if name in names)
        shown = [f"`model.{name}`" for name in list(told)[:NAMES_MAX]]
        if len(told) > NAMES_MAX:
            shown.append(f"{len(told) - NAMES_MAX} more")
        return f"{shown[0]} gets" if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]} get"

    def _outermost(self, name: str, names: Set[str]) -> str:
        found, path = name, name.rpartition(".")[0]
        while path and all(one in names for one in self.trainable if one.startswith(f"{path}.")):
            found, path = path, path.rpartition(".")[0]
        return found


def learning_of(
    net: nn.Module, inputs: tuple[Tensor, ...], targets: Tensor, loss: Callable[[Tensor, Tensor], Tensor]
) -> Learning:
    """What can learn in `net`, which has its gradients of these rows. Its parameters may change."""
    told = Learning(rows=len(targets))
    if not _without_gradient(net) and not _constant(net, inputs):
        return told
    idle = _without_gradient(net)
    with torch.no_grad():
        for weight in net.parameters():
            if weight.requires_grad:
                weight.add_(torch.randn_like(weight), alpha=SHAKE)
    net.zero_grad(set_to_none=True)
    try:
        torch.autograd.backward(loss(net(*inputs), targets))
        constant = _constant(net, inputs)
    except Exception:  # whatever a model does with other parameters than its own, it ran with these
        return told
    idle &= _without_gradient(net)
    unused = frozenset(name for name in idle if net.get_parameter(name).grad is None)
    every = net.named_parameters(remove_duplicate=False)  # a module may hold a weight of another one
    return Learning(
        rows=told.rows,
        trainable=tuple(name for name, weight in every if weight.requires_grad),
        unused=unused,
        still=frozenset(idle - unused),
        constant=constant,
    )


def gradients_watch(net: nn.Module, seen: set[str]) -> None:
    """Add to `seen` the name of each parameter that gets a gradient from now on."""
    for name, weight in net.named_parameters():
        if weight.requires_grad:
            weight.register_post_accumulate_grad_hook(partial(_seen_add, seen, name))  # type: ignore[no-untyped-call]


def _seen_add(seen: set[str], name: str, weight: Tensor) -> None:
    if weight.grad is not None and bool(weight.grad.any()):
        seen.add(name)


def _without_gradient(net: nn.Module) -> set[str]:
    """Names of parameters that could be trained and got no gradient, or one of zeros."""
    weights = [(name, weight) for name, weight in net.named_parameters() if weight.requires_grad and weight.numel()]
    return {name for name, weight in weights if weight.grad is None or not bool(weight.grad.any())}


def _constant(net: nn.Module, inputs: tuple[Tensor, ...]) -> str:
    """The first layer that makes rows alike; empty where the outputs of rows that differ do so, too."""
    found: list[str] = []
    names = {module: f"`model.{name}`" if name else "Its forward" for name, module in net.named_modules()}

    def look(module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, Tensor) and not _varies(output) and any(map(_varies, given)):
            found.append(names[module])

    handles = [module.register_forward_hook(look) for module in names]
    was_training = net.training
    net.eval()
    try:
        with torch.no_grad():
            outputs = net(*inputs)
    finally:
        net.train(was_training)
        for handle in handles:
            handle.remove()
    return found[0] if found and not _varies(outputs) else ""


def _varies(value: Any) -> bool:
    """Whether the rows of a tensor differ."""
    return isinstance(value, Tensor) and value.dim() > 0 and bool((value != value[:1]).any())

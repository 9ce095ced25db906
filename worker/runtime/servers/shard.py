"""One shard of the weights with its own part of the optimizer: what a parameter server keeps."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


def owners(sizes: Sequence[int], servers: int) -> list[int]:
    """Server of each tensor: the largest first, each to the one that holds least (Graham 1969). Same on every rank."""
    load, owner = [0] * servers, [0] * len(sizes)
    for index in sorted(range(len(sizes)), key=lambda index: (-sizes[index], index)):
        lightest = min(range(servers), key=lambda server: (load[server], server))
        owner[index] = lightest
        load[lightest] += sizes[index]
    return owner


def weights_of(optimizer: Optimizer) -> list[nn.Parameter]:
    """Everything it moves, in its own order: the number of a weight here is its name in `state_dict`."""
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def elements(weights: Sequence[Tensor], owner: Sequence[int], server: int) -> int:
    """Numbers that a server holds."""
    return sum(weight.numel() for weight, mine in zip(weights, owner, strict=True) if mine == server)


def views(flat: Tensor, weights: Sequence[Tensor], numbers: Sequence[int]) -> list[Tensor]:
    """One view of `flat` per weight of these numbers, in order, with its shape."""
    found, place = [], 0
    for number in numbers:
        size = weights[number].numel()
        found.append(flat[place : place + size].view(weights[number].shape))
        place += size
    return found


class Shard:
    """Master copies (float32, on the CPU) of some weights, and the optimizer that moves them. Not locked."""

    def __init__(self, optimizer: Optimizer, owner: Sequence[int], server: int) -> None:
        weights = weights_of(optimizer)
        self.numbers = [number for number, mine in enumerate(owner) if mine == server]
        """Of the weights held here, in the optimizer's order."""
        self.flat = torch.zeros(elements(weights, owner, server))
        self.version = 0
        """Updates made."""
        self.masters = [nn.Parameter(view) for view in views(self.flat, weights, self.numbers)]
        with torch.no_grad():
            for master, number in zip(self.masters, self.numbers, strict=True):
                master.copy_(weights[number])
        self._weights = weights
        self._groups = len(optimizer.param_groups)
        self.optimizer = self._part_of(optimizer)

    @property
    def rates(self) -> int:
        """Learning rates that come with a gradient: one for each group of the whole optimizer."""
        return self._groups

    def gradient_views(self, flat: Tensor) -> list[Tensor]:
        """A received gradient as the weights' own shapes."""
        return views(flat, self._weights, self.numbers)

    def apply(self, gradients: Sequence[Tensor], given: Sequence[int], rates: Sequence[float]) -> None:
        """One update. `given`: for each weight whether it has a gradient; the others stay where they are."""
        for master, gradient, is_given in zip(self.masters, gradients, given, strict=True):
            master.grad = gradient if is_given else None
        for group in self.optimizer.param_groups:
            group["lr"] = rates[group["number"]]
        self.optimizer.step()
        self.version += 1

    def _part_of(self, optimizer: Optimizer) -> Optimizer:
        """A copy of the optimizer, of whatever class, that moves the masters instead of the weights."""
        masters = dict(zip(self.numbers, self.masters, strict=True))
        memo: dict[int, object] = {
            id(tensor): tensor for state in optimizer.state.values() for tensor in state.values()
        }
        for number, weight in enumerate(self._weights):
            memo[id(weight)] = masters.get(number, weight)
        part = copy.deepcopy(optimizer, memo)
        for number, group in enumerate(part.param_groups):
            group["number"] = number
            group["params"] = [weight for weight in group["params"] if any(weight is mine for mine in self.masters)]
        part.param_groups = [group for group in part.param_groups if group["params"]]
        part.state = defaultdict(dict)
        for number, master in masters.items():
            known = optimizer.state.get(self._weights[number], {})
            part.state[master] = {name: _own(value) for name, value in known.items()}
        return part

    def state(self) -> dict[int, dict[str, object]]:
        """Weight's number -> what the optimizer knows of it."""
        return {
            number: dict(self.optimizer.state.get(master, {}))
            for number, master in zip(self.numbers, self.masters, strict=True)
        }


def _own(value: object) -> object:
    """A copy in the plain order of elements, which is that of the masters."""
    return value.detach().to("cpu", copy=True).contiguous() if isinstance(value, Tensor) else copy.deepcopy(value)

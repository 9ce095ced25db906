"""States of a model in stages as one process alone would have them, so that checkpoints move between modes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from worker.runtime.checkpoint import CorruptCheckpoint
from worker.runtime.collective import PIECE_BYTES, Group, gather_bytes
from worker.runtime.outline import packed, unpacked

Tree = dict[str, Any]


class Shares:
    """Which weights a stage holds, under the names and in the order of the whole model."""

    def __init__(self, net: nn.Module, whole_names: Sequence[str], group: Group, device: torch.device) -> None:
        self._net = net
        self._order = {name: number for number, name in enumerate(whole_names)}
        self._group = group
        self._device = device
        self._groups: dict[str, list[list[str]]] = {}

    def state(self, parts: dict[str, Any], stages: Sequence[int]) -> Tree:
        """All parts of all stages, joined on the first rank; on the others only what is here.

        `stages`: the ranks that hold the stages of the first pipeline. Ranks of other pipelines have nothing to add.
        """
        names = {key: self._group_names(key, part) for key, part in parts.items() if isinstance(part, Optimizer)}
        own = {key: _named(part, self._names_of(part)) if key in names else part.state_dict()
               for key, part in parts.items()}  # fmt: skip
        for one in to_first(own, stages, self._device):
            own = joined(own, one)
        if dist.get_rank() == 0:
            own = {key: _numbered(part, names[key]) if key in names else part for key, part in own.items()}
        return own

    def load(self, parts: dict[str, Any], states: Tree) -> None:
        """Take what is ours of whole states."""
        for key, part in parts.items():
            if isinstance(part, Optimizer):
                part.load_state_dict(self._own(part, states[key], self._group_names(key, part)))
            else:
                part.load_state_dict(restricted(states[key], part.state_dict()))

    def _names_of(self, optimizer: Optimizer) -> list[list[str]]:
        """Names of the weights here, by group of the optimizer."""
        names = {id(weight): name for name, weight in self._net.named_parameters()}
        return [[names[id(weight)] for weight in group["params"]] for group in optimizer.param_groups]

    def _group_names(self, key: str, optimizer: Optimizer) -> list[list[str]]:
        """The same of all stages, in the order in which one process would have them."""
        if key not in self._groups:
            bodies = gather_bytes(self._group, json.dumps(self._names_of(optimizer)).encode())
            by_rank = [json.loads(body) for body in bodies]
            self._groups[key] = [
                sorted({name for groups in by_rank for name in groups[number]}, key=self._order.__getitem__)
                for number in range(len(optimizer.param_groups))
            ]
        return self._groups[key]

    def _own(self, optimizer: Optimizer, state: Tree, names: list[list[str]]) -> Tree:
        if [len(group["params"]) for group in state["param_groups"]] != [len(each) for each in names]:
            raise CorruptCheckpoint("its optimizer has other groups of weights than this program's")
        numbers = dict(zip(
            (name for each in names for name in each),
            (number for group in state["param_groups"] for number in group["params"]),
            strict=True,
        ))  # fmt: skip
        own_names = self._names_of(optimizer)
        flat = [name for each in own_names for name in each]
        found = {place: state["state"][numbers[name]]
                 for place, name in enumerate(flat) if numbers[name] in state["state"]}  # fmt: skip
        groups, start = [], 0
        for group, each in zip(state["param_groups"], own_names, strict=True):
            groups.append({**group, "params": list(range(start, start + len(each)))})
            start += len(each)
        return {"state": found, "param_groups": groups}


def _named(optimizer: Optimizer, names: list[list[str]]) -> Tree:
    """The optimizer's state by name of the weight."""
    state = optimizer.state_dict()
    flat = [name for each in names for name in each]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    by_name = {name: state["state"][number] for name, number in zip(flat, numbers, strict=True)
               if number in state["state"]}  # fmt: skip
    groups = [{key: value for key, value in group.items() if key != "params"} for group in state["param_groups"]]
    return {"state": by_name, "param_groups": groups}


def _numbered(state: Tree, names: list[list[str]]) -> Tree:
    """Inverse of `_named` for the whole model."""
    groups: list[Tree] = []
    numbers: dict[str, int] = {}
    for group, each in zip(state["param_groups"], names, strict=True):
        first = len(numbers)
        numbers.update({name: first + place for place, name in enumerate(each)})
        groups.append({**group, "params": list(range(first, first + len(each)))})
    by_number = {numbers[name]: value for name, value in state["state"].items()}
    return {"state": dict(sorted(by_number.items())), "param_groups": groups}


def joined(one: Any, other: Any) -> Any:
    """Two trees as one; where both hold a value the first one's counts."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one
    rest = {key: value for key, value in other.items() if key not in one}
    return {key: joined(value, other[key]) if key in other else value for key, value in one.items()} | rest


def restricted(state: Any, like: Any) -> Any:
    """Of a tree the places that `like` has. Raises `CorruptCheckpoint` where one is missing."""
    if not isinstance(like, dict) or not isinstance(state, dict):
        return state
    missing = [str(key) for key in like if key not in state]
    if missing:
        raise CorruptCheckpoint(f"it lacks {', '.join(missing[:3])} of this program's model")
    return {key: restricted(state[key], value) for key, value in like.items()}


def to_first(own: Tree, ranks: Sequence[int], device: torch.device) -> list[Tree]:
    """What the other `ranks` hold, on the first rank; nothing elsewhere."""
    here = dist.get_rank()
    if here not in ranks:
        return []
    if here != 0:
        body = torch.frombuffer(packed(own), dtype=torch.uint8)
        dist.send(torch.tensor([len(body)], device=device), 0)
        for piece in torch.split(body, PIECE_BYTES):
            dist.send(piece.to(device), 0)
        return []
    found = []
    for rank in ranks:
        if rank != 0:
            length = torch.zeros(1, dtype=torch.int64, device=device)
            dist.recv(length, rank)
            whole = bytearray(int(length))
            for piece in torch.split(torch.frombuffer(whole, dtype=torch.uint8), PIECE_BYTES):
                moved = torch.empty_like(piece, device=device)
                dist.recv(moved, rank)
                piece.copy_(moved)
            found.append(unpacked(whole))
    return found

"""How many stages there are, and what a rank keeps of a model of which it trains one stage."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from worker.events import FailureCode
from worker.runtime.failures import ProgramFailure
from worker.runtime.spec import Spec

FEWEST = 2
"""Stages that several pipelines have if nothing else is wished: the fewest messages."""


def stages_of(spec: Spec, world_size: int) -> int:
    """Stages of a pipeline. Raises `ProgramFailure` where the ranks cannot be shared out over them."""
    wish = spec.get("pipeline", {}).get("stages", "auto")
    stages = wish if isinstance(wish, int) else world_size if spec.get("mode") == "pipeline" else FEWEST
    if stages < FEWEST or world_size % stages or (spec.get("mode") == "pipeline" and stages != world_size):
        several = "" if spec.get("mode") == "pipeline" else "a multiple of "
        message = f"{world_size} ranks cannot make pipelines of {stages} stages: it takes {several}{stages}."
        hint = "Set pipeline.stages to auto, or resources.count to match; several pipelines are mode pipeline+sync."
        raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, hint)
    return stages


def keep_only(net: nn.Module, stage: nn.Module) -> nn.Module:
    """`net` without the memory of the weights and statistics that `stage` does not hold: they become shapes only."""
    own = {id(tensor) for tensor in (*stage.parameters(), *stage.buffers())}
    others = {id(tensor) for tensor in net.state_dict(keep_vars=True).values()} - own
    _exchange(net, lambda tensor: tensor.to("meta") if id(tensor) in others else tensor)
    return net


def whole_again(skeleton: nn.Module) -> nn.Module:
    """A whole model on the host, of its own: room for all that `keep_only` let go, with any values."""
    whole = copy.deepcopy(skeleton)
    _exchange(whole, lambda tensor: torch.empty_like(tensor, device="cpu") if tensor.is_meta else tensor.cpu())
    return whole


@torch.no_grad()
def _exchange(net: nn.Module, other: Callable[[Tensor], Tensor]) -> None:
    """Put `other(tensor)` in the place of every weight and buffer; what was shared stays shared."""
    made: dict[int, tuple[Tensor, Tensor]] = {}  # holds what was there, so that its identity is not given anew
    for module in net.modules():
        tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
        for tensors in tables:
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                if id(tensor) not in made:
                    new = other(tensor)
                    if new is not tensor and isinstance(tensor, nn.Parameter):
                        new = nn.Parameter(new, tensor.requires_grad)
                    made[id(tensor)] = tensor, new
                tensors[name] = made[id(tensor)][1]

"""Watches a training step operator by operator: what the forward pass does, what it saves, what lives at the peak."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from worker.runtime.inspection.operators import Entry, entry, flops


class Phase(Enum):
    """What of a step is going on."""

    SETUP = 1
    FORWARD = 2
    BACKWARD = 3
    UPDATE = 4


LASTING = (Phase.SETUP, Phase.UPDATE)
"""What was made then and still lives after a step is state: the optimizer's, averages of the weights."""


@dataclass(kw_only=True)
class Step:
    """What one step did."""

    rows: int
    operators: list[Entry] = field(default_factory=list)
    """Of the forward pass, in order."""
    backward_flops: float = 0.0
    saved: dict[int, int] = field(default_factory=dict)
    """Storage -> bytes kept for the backward pass."""
    peak_bytes: int = 0
    """Of everything made while training that lived at once: state, gradients, activations, temporaries."""

    @property
    def activation_bytes(self) -> int:
        """Kept for the backward pass, every storage counted once."""
        return sum(self.saved.values())


class Tracer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operator. `step` records one; parameters and buffers must be made known by `model_holds` before."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.phase = Phase.SETUP
        self.live_bytes = 0
        self._step: Step | None = None
        self._peak_bytes = 0
        self._held: set[int] = set()
        self._live: dict[int, tuple[Phase, int, weakref.ref[Any]]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch's own switch: nothing is compiled while we look, so each operator is spared a wrapper."""
        return False

    def model_holds(self, tensors: Iterable[Tensor]) -> None:
        """These are weights and buffers: no activations, and not made by a step."""
        self._held |= {tensor.untyped_storage()._cdata for tensor in tensors}

    @contextmanager
    def step(self, rows: int) -> Iterator[Step]:
        """Record one step on so many rows, from the making of its batch to the update of the weights."""
        self._step, self.phase = Step(rows=rows), Phase.FORWARD
        self._peak_bytes = self.live_bytes
        with torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor):
            try:
                yield self._step
            finally:
                self._step.peak_bytes = self._peak_bytes
                self._step, self.phase = None, Phase.SETUP

    @contextmanager
    def peak(self) -> Iterator[list[int]]:
        """Appends to the list, at the end, by how many bytes the live ones grew at most."""
        before_bytes = self._peak_bytes = self.live_bytes
        grown: list[int] = []
        yield grown
        grown.append(self._peak_bytes - before_bytes)

    def state_bytes(self) -> int:
        """What lasts from step to step beside weights and gradients; call between steps."""
        return sum(size for phase, size, _ in self._live.values() if phase in LASTING)

    def __torch_dispatch__(
        self, func: Any, types: Sequence[Any], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Pass the operator on and take note of it."""
        kwargs = kwargs or {}
        if func.namespace in ("prim", "profiler"):
            return func(*args, **kwargs)
        phase = self._now()
        result = func(*args, **kwargs)
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._born(leaf, phase)
        if self._step is not None and phase is Phase.FORWARD:
            found = entry(func, args, kwargs, result, torch.is_grad_enabled())
            if found is not None:
                self._step.operators.append(found)
        elif self._step is not None and phase is Phase.BACKWARD:
            self._step.backward_flops += flops(func, args, kwargs, result)
        return result

    def _now(self) -> Phase:
        """Within a step autograd's own mark tells the backward pass; updates come after it, without gradients."""
        if self.phase is not Phase.SETUP:
            if torch._C._current_graph_task_id() != -1:
                self.phase = Phase.BACKWARD
            elif self.phase is not Phase.FORWARD:
                self.phase = Phase.FORWARD if torch.is_grad_enabled() else Phase.UPDATE
        return self.phase

    def _pack(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if self._step is not None and storage._cdata not in self._held:
            self._step.saved[storage._cdata] = storage.nbytes()
        return tensor

    def _born(self, tensor: Tensor, phase: Phase) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        known = self._live.get(key)
        if key in self._held or (known is not None and known[2]() is storage and known[1] == size):
            return
        if known is not None:
            self.live_bytes -= known[1]
        self._live[key] = (phase, size, weakref.ref(storage, lambda gone: self._died(key, gone)))
        self.live_bytes += size
        self._peak_bytes = max(self._peak_bytes, self.live_bytes)

    def _died(self, key: int, gone: weakref.ref[Any]) -> None:
        known = self._live.get(key)
        if known is not None and known[2] is gone:
            self.live_bytes -= known[1]
            del self._live[key]

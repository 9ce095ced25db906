"""The training loss as points of a curve: a fixed number of steps each, so that the same run draws the same curve."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from worker.events import FailureCode
from worker.runtime.failures import ProgramFailure

POINTS = 1000
"""About this many points for a whole run."""
FIRST_STEP_HINT = (
    "The weights are still those that the run began with, so no learning rate is to blame: the model itself, or the "
    "loss made of its outputs, is no finite number for these rows. Look there for a logarithm, a root or a division, "
    "and in the data for extreme values. There is no checkpoint yet."
)


@dataclass(frozen=True, kw_only=True)
class LossPoint:
    """Mean loss of the steps that end at `step`."""

    step: int
    loss: float
    learning_rate: float | None


class LossLog:
    """Collects losses without waiting for the device; `drain` looks at them, a few times a second."""

    def __init__(self, steps_total: int) -> None:
        self.stride = max(1, steps_total // POINTS)
        self._waiting: list[tuple[Tensor | float, float | None, int | None]] = []
        self._window: list[float] = []
        self._step = 0
        self.last: float | None = None

    def add(self, loss: Tensor | float, learning_rate: float | None, step: int | None = None) -> None:
        """Take the loss of the next step, or of the one that is named; a tensor stays on its device."""
        self._waiting.append((loss, learning_rate, step))

    def drain(self) -> list[LossPoint]:
        """Read what has waited; returns the points completed. Raises `ProgramFailure` (nan_loss) naming the step."""
        waiting, self._waiting = self._waiting, []
        tensors = [loss for loss, _, _ in waiting if isinstance(loss, Tensor)]
        values = iter(torch.stack(tensors).float().tolist() if tensors else ())
        points = []
        for loss, rate, step in waiting:
            value = next(values) if isinstance(loss, Tensor) else loss
            self._step = self._step + 1 if step is None else step
            if not math.isfinite(value):
                raise nan_loss(self._step, value)
            self.last = value
            self._window.append(value)
            if len(self._window) == self.stride:
                points.append(LossPoint(step=self._step, loss=sum(self._window) / self.stride, learning_rate=rate))
                self._window = []
        return points

    def state_dict(self) -> dict[str, Any]:
        """What has been read of the point that is not complete; call `drain` before."""
        return {"step": self._step, "window": list(self._window)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of `state_dict`."""
        self._step = int(state["step"])
        self._window = [float(value) for value in state["window"]][-(self.stride - 1) :] if self.stride > 1 else []


def check_losses(step: int, metrics: Mapping[str, Mapping[str, float]]) -> None:
    """Raise `ProgramFailure` (nan_loss) where the loss of a part is not finite."""
    for part, values in metrics.items():
        if not math.isfinite(values.get("loss", 0.0)):
            raise nan_loss(step, values["loss"], "validation" if part == "val" else part)


def check_weights(step: int, net: nn.Module) -> None:
    """Raise `ProgramFailure` (nan_loss) where a weight is not finite: the loss shows that one step later."""
    if not are_finite([weight for weight in net.parameters() if weight.requires_grad]):
        raise _not_finite(f"The weights are no longer finite numbers after step {step}", step)


def are_finite(weights: Sequence[Tensor]) -> bool:
    """Whether all are numbers, and finite."""
    return not weights or bool(torch.stack([torch.isfinite(weight).all() for weight in weights]).all())


def nan_loss(step: int, value: float, where: str = "training") -> ProgramFailure:
    """The failure of a loss that is not a number or infinite."""
    hint = FIRST_STEP_HINT if step == 1 and where == "training" else ""
    return _not_finite(f"The {where} loss became {value} at step {step}", step, hint)


def scale_lost(step: int) -> ProgramFailure:
    """The failure of gradients that float16 cannot hold however small the loss is made."""
    return _not_finite(f"The gradients overflowed in float16 in every try up to step {step}", step)


def _not_finite(what: str, step: int, hint: str = "") -> ProgramFailure:
    """Without a hint it follows the run (`known_causes.not_finite_hint`)."""
    return ProgramFailure(FailureCode.NAN_LOSS, f"{what}, and the run was stopped.", hint, step=step)

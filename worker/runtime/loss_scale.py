"""The factor by which a loss is multiplied where layers compute in float16, whose small gradients would be zeros.

torch's GradScaler holds it: halved when a gradient overflows, doubled after 2,000 steps in which none did. What tells
of an overflow is the norm of the gradients when they are those of all ranks, so that all leave out the same step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from worker.events import FailureCode
from worker.runtime.failures import ProgramFailure
from worker.runtime.loss_curve import scale_lost
from worker.words import counted

LEAST = 2.0**-8
"""At a smaller factor gradients of more than ten million overflow: no batch is to blame for that."""
USUAL_SHARE = 0.05
"""Of the steps: as many may be left out without a word. In a short run those at the beginning are more."""


class LossScale:
    """Scales losses and takes gradients back to their size; all of it does nothing where it is not `needed`."""

    def __init__(self, device: torch.device, *, needed: bool) -> None:
        self.is_on = needed
        self.overflowed = False
        """Whether the newest step was left out."""
        self.skipped = 0
        """Steps that were left out, over all attempts of the run."""
        self._scaler = torch.amp.GradScaler(device.type, enabled=needed)
        self._weights: Sequence[Tensor] = ()
        self._pending = False
        """Whether gradients are those of a scaled loss."""
        self._is_used = False
        """Whether a loss was scaled, or it was told that none is."""
        self._norm = nn.Parameter(torch.zeros((), device=device))
        self._watched = SGD([self._norm], lr=0.0) if needed else None
        """Its one gradient is the norm of all of them: what GradScaler looks at."""
        self.scale(self._norm.detach())  # GradScaler begins with the first loss, which a stage may never have
        self._beginning = self._scaler.state_dict()

    @torch.no_grad()
    def open(self, weights: Sequence[Tensor]) -> None:
        """A backward pass follows. Gradients that a program has kept are scaled as those that are added to them."""
        if not self.is_on:
            return
        self._weights = weights
        if not self._pending and (kept := self._gradients()):
            torch._foreach_mul_(kept, self._scaler.get_scale())
        self._pending = self._is_used = True

    def scale(self, loss: Tensor) -> Tensor:
        """The loss from which gradients are to be computed."""
        return self._scaler.scale(loss)

    @torch.no_grad()
    def unscale(self, norm: Tensor | None = None) -> None:
        """Take the gradients back to their size; after an overflow there are none, so that an update moves nothing.

        `norm`: of the gradients as all ranks know it, where a rank has but some of them; it is taken back as well.
        """
        if not self._pending or self._watched is None:
            return
        self._pending = False
        gradients, factor = self._gradients(), self.scale(torch.ones_like(self._norm)).reciprocal()
        known = torch.nn.utils.get_total_norm(gradients) if norm is None else norm
        self._norm.grad = known.to(self._norm, copy=True)
        self._scaler.unscale_(self._watched)
        self.overflowed = not math.isfinite(float(self._norm.grad))
        self._scaler.update()
        if self.overflowed:
            self.skipped += 1
            for weight in self._weights:
                weight.grad = None
            return
        if gradients:
            torch._foreach_mul_(gradients, factor)
        if norm is not None:
            norm.mul_(factor.to(norm.device))

    def check(self, step: int) -> str:
        """At the end of a step. Raises `ProgramFailure` where its gradients were used as they were scaled, and where
        they overflow at any scale (nan_loss). Returns what a person should know, once."""
        if self._pending:
            message = "train.py moves the weights by itself, by gradients of a loss that is scaled for float16."
            hint = "Call run.update(optimizer) in every step, as the generated train.py does."
            raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, hint)
        if self.overflowed and self._factor() < LEAST:
            raise scale_lost(step)
        if not self.is_on or self._is_used:
            return ""
        self._is_used = True
        return (
            "train.py computes gradients without run.backward(...), so its loss is not scaled: small gradients of what "
            "it computes in float16 become zeros. Call run.backward, or set training.precision to float32."
        )

    def told(self, steps: int) -> str:
        """At the end of a run of so many steps: how many of them were left out, where it is more than a few."""
        if self.skipped <= steps * USUAL_SHARE:
            return ""
        return (
            f"{self.skipped:,} of {counted(steps, 'step')} were left out, as their gradients overflowed in float16: "
            "the model learnt from the others. With training.precision: float32 none is."
        )

    def _factor(self) -> float:
        return float(self._scaler.get_scale())

    def _gradients(self) -> list[Tensor]:
        return [weight.grad for weight in self._weights if weight.grad is not None]

    def state_dict(self) -> dict[str, Any]:
        """Factor and counts; empty where none is needed."""
        return {"scaler": self._scaler.state_dict(), "skipped": self.skipped} if self.is_on else {}

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Inverse of `state_dict`. Of a run that had none, or before there were any, it begins anew, whatever this
        process has made of it: ranks that go back together divide by the same."""
        if self.is_on:
            known = state or {"scaler": self._beginning, "skipped": 0}
            self._scaler.load_state_dict(dict(known["scaler"]))
            self.skipped = int(known["skipped"])


def trained(net: nn.Module, parts: Mapping[str, Any]) -> list[Tensor]:
    """All weights that gradients move: those of the model here, and what optimizers among the parts of a run have."""
    optimizers = (part for part in parts.values() if isinstance(part, Optimizer))
    others = (weight for optimizer in optimizers for group in optimizer.param_groups for weight in group["params"])
    return list({id(weight): weight for weight in (*net.parameters(), *others)}.values())

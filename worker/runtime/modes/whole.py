"""The whole model on every rank; with several ranks gradients are averaged after every step (single and sync)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from worker.runtime import memory
from worker.runtime.batches import BatchPlan, iterate
from worker.runtime.collective import Group
from worker.runtime.data import Part
from worker.runtime.evaluation import outputs
from worker.runtime.gradients import GradientAverager, broadcast_model
from worker.runtime.modes.base import Batch, Criterion
from worker.runtime.synced_norm import Together, share_statistics

if TYPE_CHECKING:
    from worker.runtime.run import Run


class Whole:
    """Forward, backward and update as a bare loop makes them. The other modes change one thing each."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.name = "sync" if run.world_size > 1 else "single"
        self._averager: GradientAverager | None = None
        self._net: nn.Module | None = None
        self._together = Together(None)
        """Whom batch normalisation shares its statistics with."""

    @property
    def shards(self) -> tuple[int, int]:
        """Every rank takes its share of the rows."""
        return self.run.rank, self.run.world_size

    @property
    def home(self) -> torch.device:
        """The device."""
        return self.run.device

    def place(self, net: nn.Module) -> nn.Module:
        """Share the first rank's weights."""
        group = self.run.group
        if group is not None:
            broadcast_model(net, group)
            self.run.pace.join()
            self._averager = self._averager_of(net, group)
            if self.shares_statistics:
                self._together.group, self._together.waiting = group, self.run.pace.waiting
                share_statistics(net, self._together)
        self._net = net
        return net

    @property
    def shares_statistics(self) -> bool:
        """Whether batch normalisation takes mean and variance from the rows of all ranks, as the spec may wish."""
        return self.name == "sync" and self.run.spec.training.get("batch_norm") == "synced"

    def _averager_of(self, net: nn.Module, group: Group) -> GradientAverager:
        told = len(self.run.control.tells())
        scaled = self.run.loss_scale.is_on
        return GradientAverager(net, group, self.run.device, self._message_type(), told, scaled=scaled)

    def _message_type(self) -> torch.dtype | None:
        """What gradients are rounded to on their way, as spec.yaml says."""
        compression = str(self.run.spec.training.get("compression", "none"))
        return {"fp16": torch.float16, "bf16": torch.bfloat16}.get(compression)

    def batches(self, part: Part, plan: BatchPlan, order: Tensor, first_step: int) -> Iterator[tuple[int, Batch]]:
        """One share of every step."""
        run = self.run

        def plan_now() -> BatchPlan:
            return run.pace.plan(plan)

        return enumerate(iterate(part, plan_now, order, self.shards[0], first_step, run.device), first_step)

    def begin(self, share: float) -> None:
        """Gradients may leave while the backward pass goes on."""
        if self._averager is None:
            return
        if not self._averager.fits() and self.run.group is not None and self._net is not None:
            self._averager.close()
            self._averager = self._averager_of(self._net, self.run.group)
        self._averager.begin(share)
        self._together.share = share

    def backward(self, net: nn.Module, inputs: tuple[Tensor, ...], targets: Tensor, criterion: Criterion) -> Tensor:
        """All rows at once."""
        with self.run.autocast:
            loss = criterion(net(*inputs), targets)
        torch.autograd.backward(self.run.loss_scale.scale(loss))
        return loss

    def average(self, loss: Tensor, share: float, wishes: tuple[float, ...]) -> Tensor | None:
        """Average gradients and batch statistics over the ranks, weighted by rows."""
        if self._averager is None:
            return None
        self._averager.average(loss, share, wishes)
        return self._averager.controls[:-1]

    def unscale(self) -> None:
        """By the gradients that all ranks hold alike: what a program has beside its model, each has for itself."""
        if self._averager is None or self._net is None:
            self.run.loss_scale.unscale()
            return
        alike = [weight.grad for weight in self._net.parameters() if weight.grad is not None]
        self.run.loss_scale.unscale(torch.nn.utils.get_total_norm(alike))

    def clip(self, net: nn.Module, longest: float) -> None:
        """Every rank holds all gradients."""
        torch.nn.utils.clip_grad_norm_(net.parameters(), longest)

    def update(self, optimizer: Optimizer) -> None:
        """Every rank makes the same update."""
        optimizer.step()

    @property
    def rows_at_once(self) -> int:
        """Rows that a rank passes through the model at the same time while training."""
        return self.run.batch_size // self.run.world_size

    def outputs(self, net: nn.Module, part: Part) -> Tensor:
        """Rows are shared out over the ranks."""
        run = self.run
        rows = memory.rows_at_once(self.rows_at_once, run.trial.found)
        return outputs(net, part, run.device, rows, run.autocast, (run.group, run.rank, run.world_size))

    def state(self, parts: dict[str, Any]) -> dict[str, Any]:
        """Every rank holds everything."""
        return {name: part.state_dict() for name, part in parts.items()}

    def load(self, parts: dict[str, Any], states: dict[str, Any]) -> None:
        """Every rank takes everything."""
        for name, part in parts.items():
            part.load_state_dict(states[name])

    def whole(self, net: nn.Module) -> nn.Module:
        """It is whole."""
        return net

    def forget_ranks(self) -> None:
        """The ranks are seated anew: whoever averaged with the old ones must not hear of further gradients."""
        if self._averager is not None:
            self._averager.close()
            self._averager = None
            self._together.group = None

    def close(self) -> None:
        """Nothing is open."""

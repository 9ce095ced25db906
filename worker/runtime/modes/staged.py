"""Every rank holds one stage of the model, and batches pass them in micro-batches (pipeline).

With more ranks than stages there are several such pipelines, which share out the rows of a batch and average their
gradients stage by stage (pipeline+sync). Rank r is stage r mod K of pipeline r div K.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from worker.events import FailureCode
from worker.runtime import memory
from worker.runtime.batches import BatchPlan, iterate
from worker.runtime.collective import TorchGroup, broadcast_bytes
from worker.runtime.data import Part
from worker.runtime.failures import ProgramFailure
from worker.runtime.gradients import GradientAverager, broadcast_model
from worker.runtime.layer_modes import LayerModes, evaluated
from worker.runtime.modes.base import Batch, Criterion
from worker.runtime.pipeline.blocks import Chain
from worker.runtime.pipeline.place import keep_only, stages_of, whole_again
from worker.runtime.pipeline.plan import Cutting
from worker.runtime.pipeline.stage import Pipeline, least_rows
from worker.runtime.pipeline.state import Shares, restricted
from worker.words import counted

if TYPE_CHECKING:
    from worker.runtime.run import Run

TRIED_ROWS = 32
"""By which the model is outlined and its pieces are timed."""


class Staged:
    """A rank's part in one of `replicas` pipelines of `stages` stages."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.name = str(run.spec.get("mode"))
        if "MASTER_ADDR" not in os.environ:
            message = (
                "Stages of a model talk through torch.distributed, but its variables (MASTER_ADDR, ...) are not set."
            )
            hint = f"Start it with: torchrun --nproc-per-node {run.world_size} train.py"
            raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, hint)
        run.settings = replace(run.settings, backend="torch")  # whatever the other modes use
        self.stages = stages_of(run.spec, run.world_size)
        self.replica, self.stage = divmod(run.rank, self.stages)
        self.replicas = run.world_size // self.stages
        run.teller.rows_factor = float(self.replicas)
        self._norm = torch.zeros(())
        self._whole: nn.Module | None = None

    @property
    def shards(self) -> tuple[int, int]:
        """All stages of a pipeline see the same rows."""
        return self.replica, self.replicas

    @property
    def home(self) -> torch.device:
        """The host: no device need hold the whole model."""
        return torch.device("cpu")

    def place(self, net: nn.Module) -> nn.Module:
        """Cut the model, alike on every rank, and keep the stage of this rank."""
        run = self.run
        assert isinstance(run.group, TorchGroup) and run.sample is not None  # noqa: S101 - see `__init__`
        if run.group.on_gpus and run.group.by_host:
            message = "Stages on GPUs hand their outputs on by NCCL, for which each rank needs a GPU of its own."
            raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, "Start a rank for each GPU, or add --device cpu.")
        inputs, modes = [tensor[:TRIED_ROWS].to(self.home) for tensor in run.sample.inputs], LayerModes(net)
        chain = Chain(net, inputs)
        self._check(chain)
        self.plan = Cutting(run, chain, inputs, self.stages).agreed()
        rows_at_once = memory.rows_at_once(max(1, run.batch_size // run.world_size), run.trial.found)
        self._rows_at_once = int(broadcast_bytes(run.group, str(rows_at_once).encode()))
        self._no_rows = chain.pieces[-1].boundary.empty(0, "cpu")
        first, end = self.plan.bounds[self.stage]
        before = chain.pieces[first - 1].boundary if first else None
        self._names = [name for name, _ in net.named_parameters()]
        self._net = chain.stage(first, end)
        self._net.train(net.training)
        modes.restore()  # layers are those of the model; a stage alone is a new one
        rows_needed = least_rows(net)
        self._skeleton = keep_only(net, self._net)
        self._net.to(run.device)
        lines = [run.group.among(range(at, at + self.stages)) for at in range(0, run.world_size, self.stages)]
        alike = [run.group.among(range(at, run.world_size, self.stages)) for at in range(self.stages)]
        ranks = range(self.replica * self.stages, (self.replica + 1) * self.stages)
        self._pipeline = Pipeline(
            self.plan, (before, chain.pieces[end - 1].boundary), self.stage, ranks,
            lines[self.replica].members, run.device, run.autocast, rows_needed,
        )  # fmt: skip
        self._pipeline.scale = run.loss_scale.scale
        self._pipeline.working = run.pace.working
        self._alike, self._averager = alike[self.stage], None
        if self.replicas > 1:
            broadcast_model(self._net, self._alike)
            self._averager = GradientAverager(self._net, self._alike, run.device)
        self._shares = Shares(self._net, self._names, run.group, run.device)
        self._tell(chain)
        return self._net

    def _check(self, chain: Chain) -> None:
        if len(chain.pieces) < self.stages:
            message = (
                f"The model has {counted(len(chain.pieces), 'piece')} to cut between, too few for {self.stages} stages."
            )
            raise ProgramFailure(FailureCode.PROGRAM_ERROR, message, self._fewer(len(chain.pieces)))

    def _fewer(self, most: int) -> str:
        """What to ask for where the model makes at most so many stages: a pipeline alone has one for each device."""
        if most == 1:
            return "A pipeline needs two: use mode sync."
        if self.replicas == 1:
            return f"Ask for at most {most} devices (resources.count), or use mode sync."
        return f"Ask for at most {most} stages (pipeline.stages), or use mode sync."

    def _tell(self, chain: Chain) -> None:
        plan = self.plan
        for stage, (first, end) in enumerate(plan.bounds):
            own = sum(weight.numel() for weight in chain.stage(first, end).parameters())
            names = chain.stage_name(first, end)
            self.run.reporter.say(f"stage {stage + 1} of {self.stages}: {names}, {own:,} parameters")
        parts = counted(plan.micro_batches, "micro-batch", "micro-batches")
        ways = f"{plan.schedule}{', recomputing' if plan.recompute else ''}"
        self.run.reporter.say(f"{parts} of {plan.rows} rows, {ways}")

    # ---- steps -------------------------------------------------------------------------------------------------
    def batches(self, part: Part, plan: BatchPlan, order: Tensor, first_step: int) -> Iterator[tuple[int, Batch]]:
        """The rows of this pipeline, on every stage of it: the first needs the inputs, the last the targets."""
        return enumerate(iterate(part, plan, order, self.replica, first_step, self.run.device), first_step)

    def begin(self, share: float) -> None:
        """Gradients are whole with the last micro-batch only: nothing leaves before it."""
        if self._averager is not None and not self._averager.fits():
            self._averager.close()
            self._averager = GradientAverager(self._net, self._alike, self.run.device)

    def backward(self, net: nn.Module, inputs: tuple[Tensor, ...], targets: Tensor, criterion: Criterion) -> Tensor:
        """Micro-batch by micro-batch through the stages; but for its own passes this rank waits for its neighbours."""
        with self.run.pace.waiting():
            return self._pipeline.step(net, inputs, targets, criterion)

    def average(self, loss: Tensor, share: float, wishes: tuple[float, ...]) -> Tensor | None:
        """Average gradients over the pipelines; tell all ranks the loss, the norm of the gradient and the wishes."""
        run = self.run
        assert run.group is not None  # noqa: S101
        if self._averager is not None:
            self._averager.average(loss, share, (0.0, 0.0, 0.0))
        gradients = [weight.grad for weight in self._net.parameters() if weight.grad is not None]
        square = torch.nn.utils.get_total_norm(gradients).to(run.device, torch.float64) ** 2 / self.replicas
        mean = loss.detach().double() * share if self._pipeline.is_last else torch.zeros_like(square)
        told = torch.stack([mean, *torch.tensor(wishes, dtype=torch.float64, device=square.device), square])
        run.group.sum_start(told, "controls").wait()
        self._norm = told[-1].sqrt().float()
        return told[:-1]

    def unscale(self) -> None:
        """By the norm over all stages, which shows an overflow in any of them."""
        self.run.loss_scale.unscale(self._norm)

    def clip(self, net: nn.Module, longest: float) -> None:
        """By the norm over all stages."""
        torch.nn.utils.clip_grads_with_norm_(net.parameters(), longest, self._norm)

    def update(self, optimizer: Optimizer) -> None:
        """Every rank its own stage."""
        optimizer.step()

    # ---- evaluation, checkpoints -------------------------------------------------------------------------------
    def outputs(self, net: nn.Module, part: Part) -> Tensor:
        """Through the stages; of the whole model that `whole` gave, each rank takes its stage's weights."""
        run = self.run
        assert run.group is not None  # noqa: S101
        if len(part) == 0:
            return torch.zeros(0, 1)
        if net is self._whole:
            self._net.load_state_dict(restricted(net.state_dict(), self._net.state_dict()))
            net = self._net
        bounds = (len(part) * self.replica // self.replicas, len(part) * (self.replica + 1) // self.replicas)
        with evaluated(net):
            made = self._pipeline.outputs(net, part, bounds, self._rows_at_once)
        return run.group.gather(made if self._pipeline.is_last else self._no_rows)

    def state(self, parts: dict[str, Any]) -> dict[str, Any]:
        """Of all stages of the first pipeline, under the names that one process has."""
        return self._shares.state(parts, range(self.stages))

    def load(self, parts: dict[str, Any], states: dict[str, Any]) -> None:
        """The part of this stage."""
        self._shares.load(parts, states)

    def whole(self, net: nn.Module) -> nn.Module:
        """The model in one piece on the host, as it was trained last (its average, if there is one)."""
        run = self.run
        assert run.group is not None  # noqa: S101
        name = "ema" if "ema" in run.checkpointer.parts else "net"
        state = self.state({name: run.checkpointer.parts[name]})[name]
        self._whole = whole_again(self._skeleton)
        if run.rank == 0:
            self._whole.load_state_dict(state["net"] if name == "ema" else state)
        broadcast_model(self._whole, run.group)
        run.checkpointer.parts = {"net": self._whole}  # the weights to fall back on, should the best be damaged
        return self._whole

    def close(self) -> None:
        """Nothing is open."""

"""One rank's stage of a model: batches pass it in micro-batches, by a schedule of torch.distributed.pipelining."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from worker.runtime.collective import PeerLost
from worker.runtime.data import Part
from worker.runtime.device import settled_s
from worker.runtime.modes.base import Criterion
from worker.runtime.pipeline.blocks import Boundary
from worker.runtime.pulse import pulse
from worker.stages import ONE_F_ONE_B, StagePlan

LOST_WORDS = ("gloo", "NCCL", "Connection", "peer", "timed out")
"""In what torch.distributed says when another rank went away."""
MESSAGES = 4
"""There and back, of which the fastest counts."""
MOST_ON_THE_WAY = 2
"""Outputs of an evaluation that may be on their way to the next stage."""


class Pipeline:
    """The stage of this rank, its neighbours, and the schedule. Every rank of a pipeline makes the same calls."""

    def __init__(
        self,
        plan: StagePlan,
        boundaries: tuple[Boundary | None, Boundary],
        stage: int,
        ranks: Sequence[int],
        members: dist.ProcessGroup | None,
        device: torch.device,
        autocast: AbstractContextManager[Any],
        least_rows: int = 1,
    ) -> None:
        """`boundaries`: what comes in (None: the model's inputs) and what goes out; `ranks`: those of the stages;
        `least_rows`: of a micro-batch (see `least_rows`)."""
        self.plan, self.stage, self.stages = plan, stage, len(ranks)
        self._comes_in, self._goes_out = boundaries
        self._ranks, self._members = ranks, members
        self._device, self._autocast, self._least_rows = device, autocast, least_rows
        self.working: Callable[[], AbstractContextManager[None]] = nullcontext
        """Within it each pass of this stage is made."""
        self.scale: Callable[[Tensor], Tensor] = _as_it_is
        """What a loss becomes before its gradients are computed."""
        self._schedules: dict[tuple[int, int], ScheduleGPipe | Schedule1F1B] = {}
        self._criterion: Criterion | None = None
        self._rows, self._losses = 0, list[Tensor]()

    @property
    def is_last(self) -> bool:
        """Whether the loss is known here."""
        return self.stage == self.stages - 1

    def step(self, net: nn.Module, inputs: Sequence[Tensor], targets: Tensor, criterion: Criterion) -> Tensor:
        """Forward and backward pass of a batch; the mean loss on the last stage, 0 elsewhere.

        Micro-batches are of one size: the last is filled up with rows from the front, which do not count in the loss.
        """
        self._rows, self._losses, self._criterion = len(targets), [], criterion
        rows, count = micro_rows(self._rows, self.plan.micro_batches, self._least_rows)
        filled = [_filled(tensor, rows * count) for tensor in (inputs if self.stage == 0 else ())]
        schedule = self._schedule(net, rows, count, filled)
        with told_apart():
            if self.is_last:
                schedule.step(target=_filled(targets, rows * count), return_outputs=False)
            else:
                schedule.step(*filled, return_outputs=False)
        return torch.stack(self._losses).sum() if self._losses else torch.zeros((), device=self._device)

    @torch.no_grad()
    def outputs(self, net: nn.Module, part: Part, bounds: tuple[int, int], rows_at_once: int) -> Tensor:
        """float32 [rows, outputs] on the CPU on the last stage, of rows `bounds`; nothing on the others."""
        start, stop = bounds
        shell = self._shell(net, recompute=False).eval()
        pieces = [torch.zeros(0, *self._goes_out.shape)]
        sent: list[tuple[Any, Tensor]] = []
        with told_apart():
            for first in range(start, stop, rows_at_once):
                last = min(stop, first + rows_at_once)
                output = shell(*self._came(part, first, last))
                pulse.beat()
                if self.is_last:
                    pieces.append(output.float().cpu())
                    continue
                sent.append((dist.isend(output, self._ranks[self.stage + 1]), output))
                while len(sent) > MOST_ON_THE_WAY:
                    sent.pop(0)[0].wait()
            for work, _ in sent:
                work.wait()
        return torch.cat(pieces)

    def _came(self, part: Part, first: int, last: int) -> tuple[Tensor, ...]:
        """Rows of the part on the first stage, what the stage before made of them on the others."""
        if self._comes_in is None:
            return tuple(tensor[first:last].to(self._device) for tensor in part.inputs)
        handed = self._comes_in.empty(last - first, self._device)
        dist.recv(handed, self._ranks[self.stage - 1])
        return (handed,)

    def _schedule(
        self, net: nn.Module, rows: int, count: int, inputs: Sequence[Tensor]
    ) -> ScheduleGPipe | Schedule1F1B:
        """That of batches of this size: an epoch has one size, or two if its last batch is another."""
        if (rows, count) not in self._schedules:
            examples: tuple[Tensor, ...] = tuple(tensor[:rows] for tensor in inputs)
            if self._comes_in is not None:
                examples = (self._comes_in.empty(rows, "meta", gradient=True),)
            stage = _Stage(
                self._shell(net, self.plan.recompute),
                self.stage,
                self.stages,
                self._device,
                input_args=examples,
                output_args=self._goes_out.empty(rows, "meta", gradient=True),
                group=self._members,
            )
            stage.working = self.working
            # 1F1B wants at least as many micro-batches as stages; with fewer both do the same
            kind = Schedule1F1B if self.plan.schedule == ONE_F_ONE_B and count >= self.stages else ScheduleGPipe
            self._schedules[rows, count] = kind(stage, count, loss_fn=self._loss, scale_grads=False)
        return self._schedules[rows, count]

    def _shell(self, net: nn.Module, recompute: bool) -> nn.Module:
        return _Shell(net, (self._comes_in, self._goes_out), self._autocast, recompute)

    def _loss(self, output: Tensor, target: Tensor) -> Tensor:
        """A micro-batch's part of the batch's mean loss; called in the order of micro-batches."""
        assert self._criterion is not None  # noqa: S101 - set by `step`
        real = min(len(target), self._rows - len(self._losses) * len(target))
        with self._autocast:
            loss = self._criterion(output[:real], target[:real]) * (real / self._rows)
        self._losses.append(loss.detach())
        return self.scale(loss)


def _as_it_is(loss: Tensor) -> Tensor:
    return loss


def micro_rows(rows: int, micro_batches: int, least: int) -> tuple[int, int]:
    """(rows of a micro-batch, how many there are) of a batch: as many as wished, but for `least` rows in each.

    The last batch of an epoch may be half as large as the others.
    """
    each = max(-(-rows // micro_batches), min(least, rows))
    return each, -(-rows // each)


def least_rows(net: nn.Module) -> int:
    """Rows that the model takes at once while training: batch normalisation cannot do with one."""
    return 2 if any(isinstance(module, _BatchNorm) for module in net.modules()) else 1


class _Stage(PipelineStage):
    """A stage that tells its own passes from waiting for its neighbours."""

    working: Callable[[], AbstractContextManager[None]] = nullcontext

    def forward_one_chunk(self, *args: Any, **kwargs: Any) -> Any:
        """Of one micro-batch."""
        with self.working():
            return super().forward_one_chunk(*args, **kwargs)

    def backward_one_chunk(self, *args: Any, **kwargs: Any) -> Any:
        """Of one micro-batch."""
        with self.working():
            return super().backward_one_chunk(*args, **kwargs)


class _Shell(nn.Module):
    """A stage as its neighbours see it: takes and gives dense tensors, forgets its activations if it shall."""

    def __init__(
        self,
        net: nn.Module,
        boundaries: tuple[Boundary | None, Boundary],
        autocast: AbstractContextManager[Any],
        recompute: bool,
    ) -> None:
        super().__init__()
        self.net = net
        self._boundaries, self._autocast, self._recompute = boundaries, autocast, recompute

    def forward(self, *inputs: Tensor) -> Tensor:
        """What the next stage is sent."""
        comes_in, goes_out = self._boundaries
        if comes_in is not None:
            inputs = tuple(comes_in.enter(tensor) for tensor in inputs)
        with self._autocast:
            if self._recompute and torch.is_grad_enabled():
                made = checkpoint(
                    self.net, *inputs, use_reentrant=False,
                    context_fn=lambda: (nullcontext(), counted_once(self.net)),
                )  # fmt: skip
            else:
                made = self.net(*inputs)
        return goes_out.leave(made)


@contextmanager
def counted_once(net: nn.Module) -> Iterator[None]:
    """A second forward pass over the same rows must not move running batch statistics again."""
    norms = [module for module in net.modules() if isinstance(module, _BatchNorm) and module.track_running_stats]
    before = [(norm, norm.momentum, None if (seen := norm.num_batches_tracked) is None else seen.clone())
              for norm in norms]  # fmt: skip
    for norm in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum, seen in before:
            norm.momentum = momentum
            if seen is not None and norm.num_batches_tracked is not None:
                norm.num_batches_tracked.copy_(seen)


@contextmanager
def told_apart() -> Iterator[None]:
    """Errors of the model as they were before torch wrapped them; the loss of another rank as `PeerLost`."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error.__cause__, Exception):
            raise error.__cause__ from None
        if isinstance(error, dist.DistError) or any(word in str(error) for word in LOST_WORDS):
            raise PeerLost((str(error) or type(error).__name__).splitlines()[0]) from error
        raise


def message_s(size_bytes: int, device: torch.device) -> float:
    """Seconds until a message is at its neighbour, timed between the first two ranks; 0 on the others."""
    rank = dist.get_rank()
    if rank > 1:
        return 0.0
    body, best_s = torch.zeros(max(1, size_bytes), dtype=torch.uint8, device=device), float("inf")
    with told_apart():
        for _ in range(MESSAGES):
            began_s = time.perf_counter()
            for sender in (0, 1):
                if rank == sender:
                    dist.send(body, 1 - rank)
                else:
                    dist.recv(body, 1 - rank)
            best_s = min(best_s, (settled_s(device) - began_s) / 2)
    return best_s


def _filled(tensor: Tensor, rows: int) -> Tensor:
    """So many rows: what is missing is taken from the front."""
    if len(tensor) == rows:
        return tensor
    return tensor[torch.arange(rows, device=tensor.device) % len(tensor)]

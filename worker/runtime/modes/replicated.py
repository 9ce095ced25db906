"""One process drives all local devices: each takes a share of the rows, gradients are added up in place.

On a CPU the devices are cores: as many threads, each with a replica of the model that shares its weights but has
batch statistics of its own, which are averaged by rows after the step as between ranks. All draw dropout from torch's
one generator of the process, in no fixed order: with it no two runs are the same. On GPUs it is torch's
DataParallel: the first one gathers the outputs, and its replica's batch statistics count.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from worker.runtime.data import Part
from worker.runtime.layer_modes import modes_follow
from worker.runtime.modes.accumulated import LEAST_ROWS, Accumulated
from worker.runtime.modes.base import Criterion

if TYPE_CHECKING:
    from worker.runtime.run import Run

Gradients = tuple[Tensor | None, ...]


class Replicated(Accumulated):
    """Replicas of the model in one process."""

    def __init__(self, run: Run, micro_batches: int) -> None:
        super().__init__(run, micro_batches)
        self.name = "replicated"
        self._threads = torch.get_num_threads()
        """Of the whole process."""
        wanted = run.spec.get("resources", {}).get("count")
        gpus = torch.cuda.device_count() if run.device.type == "cuda" else 0
        count = min(gpus, wanted if isinstance(wanted, int) else gpus) if gpus else self._threads
        self.replicas = max(1, count)
        self._gpus: list[int] = []
        if gpus:
            first = run.device.index or 0
            self._gpus = [first, *(index for index in range(gpus) if index != first)][: self.replicas]
            run.autocast.drive([torch.device("cuda", index) for index in self._gpus])
        self._parallel: nn.Module | None = None
        self._nets: list[nn.Module] = []
        self._pool: ThreadPoolExecutor | None = None

    def place(self, net: nn.Module) -> nn.Module:
        """Make the replicas."""
        if self.run.device.type == "cuda":
            rounded = Rounded(net, self.run.autocast.anew)
            self._parallel = nn.DataParallel(rounded, device_ids=self._gpus)
            return super().place(net)
        weights: dict[int, object] = {id(weight): weight for weight in net.parameters()}
        self._nets = [net, *(copy.deepcopy(net, dict(weights)) for _ in range(self.replicas - 1))]
        each = max(1, self._threads // self.replicas)
        if self.replicas > 1:
            self._pool = ThreadPoolExecutor(
                self.replicas - 1, thread_name_prefix="replica", initializer=torch.set_num_threads, initargs=(each,)
            )
        torch.set_num_threads(each)
        return super().place(net)

    def one_pass(
        self, net: nn.Module, inputs: tuple[Tensor, ...], targets: Tensor, criterion: Criterion, share: float
    ) -> Tensor:
        """The rows of a micro-batch, shared out over the devices."""
        if self._parallel is not None:
            return super().one_pass(self._parallel, inputs, targets, criterion, share)
        rows = len(targets)
        count = max(1, min(self.replicas, rows // LEAST_ROWS))
        if count == 1 or self._pool is None:
            return super().one_pass(net, inputs, targets, criterion, share)
        bounds = [rows * number // count for number in range(count + 1)]
        weights = [weight for weight in net.parameters() if weight.requires_grad]
        shares = [(bounds[number + 1] - bounds[number]) / rows for number in range(count)]
        self._alike(count)

        def one(number: int) -> tuple[Tensor, Gradients]:
            part = slice(bounds[number], bounds[number + 1])
            replica = self._nets[number]
            with self.run.autocast.anew():  # it holds for the thread that enters it
                loss = criterion(replica(*(tensor[part] for tensor in inputs)), targets[part])
            loss = loss * (share * shares[number])
            return loss.detach(), torch.autograd.grad(self.run.loss_scale.scale(loss), weights, allow_unused=True)

        others = [self._pool.submit(one, number) for number in range(1, count)]
        done = [one(0), *(other.result() for other in others)]
        for _, gradients in done:
            _add(weights, gradients)
        self._average_statistics(shares)
        return torch.stack([loss for loss, _ in done]).sum()

    @torch.no_grad()
    def _alike(self, count: int) -> None:
        """All replicas begin with the model's own batch statistics, and train the layers that it trains."""
        for replica in self._nets[1:count]:
            modes_follow(replica, self._nets[0])
        first, *others = (list(net.buffers()) for net in self._nets[:count])
        for buffers in others:
            if buffers:
                torch._foreach_copy_(buffers, first)

    @torch.no_grad()
    def _average_statistics(self, shares: list[float]) -> None:
        """Batch statistics by rows, as between ranks; counters are the first replica's."""
        columns = zip(*(net.buffers() for net in self._nets[: len(shares)]), strict=True)
        for first, *others in columns:
            if first.is_floating_point():
                first.mul_(shares[0])
                for other, share in zip(others, shares[1:], strict=True):
                    first.add_(other, alpha=share)

    def outputs(self, net: nn.Module, part: Part) -> Tensor:
        """Forward passes take all threads of the process."""
        each = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        try:
            return super().outputs(net, part)
        finally:
            torch.set_num_threads(each)

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown(wait=False)


class Rounded(nn.Module):
    """A model that computes in what the spec says in any thread. DataParallel has a thread for each GPU, and tells it
    that there is autocast, but not to which type: that would be float16."""

    def __init__(self, net: nn.Module, autocast: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__()
        self.net, self._autocast = net, autocast

    def forward(self, *inputs: Tensor) -> Tensor:
        """As the model's."""
        with self._autocast():
            outputs: Tensor = self.net(*inputs)
            return outputs


@torch.no_grad()
def _add(weights: list[nn.Parameter], gradients: Gradients) -> None:
    """In the order of the replicas, so that a run can be repeated, as far as its model draws nothing: on a CPU the
    threads share one generator."""
    for weight, gradient in zip(weights, gradients, strict=True):
        if gradient is None:
            continue
        if weight.grad is None:
            weight.grad = gradient.detach()
        else:
            weight.grad += gradient

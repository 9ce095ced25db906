"""Batch normalisation over the rows of all ranks: mean and variance of a step are those that one process would take.

`torch.nn.SyncBatchNorm` refuses tensors of a CPU, Horovod's calls kernels that only GPUs have, and both take every
rank's rows to weigh the same in the loss. The algorithm is theirs (`torch.nn.modules._functions.SyncBatchNorm`); here
it is made of kernels that every device has, and of the sums of `worker.runtime.collective`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from worker.runtime.collective import Group


class Together:
    """Whom layers share their statistics with. A copy of a layer (an average of the weights, say) has the same one."""

    def __init__(self, group: Group | None) -> None:
        self.group = group
        """None: nobody; the layers are as any others."""
        self.share = 1.0
        """Rows here / rows on all ranks, at this step."""
        self.waiting: Callable[[], AbstractContextManager[None]] = nullcontext
        """Entered while the others are waited for: whoever times the work of this rank leaves that out."""

    def __deepcopy__(self, _memo: dict[int, Any]) -> Together:
        return self


class SyncedNorm:
    """Mixed into the class of a layer by `share_statistics`."""

    together: Together

    def forward(self: Any, inputs: Tensor) -> Tensor:
        """[N, C, ...] -> the same shape. A layer that does not train, or is alone, is as it was."""
        group = self.together.group
        if group is None or not self.training:
            alone: Tensor = super().forward(inputs)  # type: ignore[misc]
            return alone
        self._check_input_dim(inputs)
        tracked = (self.running_mean, self.running_var) if self.track_running_stats else (None, None)
        factor = self.momentum
        if self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            factor = 1.0 / float(self.num_batches_tracked) if factor is None else factor
        ranks = _Ranks(group, self.together.share, self.together.waiting)
        shared: Tensor = _Normalised.apply(  # type: ignore[no-untyped-call]
            inputs, self.weight, self.bias, tracked, factor, self.eps, ranks
        )
        return shared


class _Ranks(NamedTuple):
    """Whom one step is taken with."""

    group: Group
    share: float
    """Rows here / rows on all ranks."""
    waiting: Callable[[], AbstractContextManager[None]]


class _Normalised(torch.autograd.Function):
    """One message forward: rows, sums, sums of squares. One backward: both sums that a gradient depends on.

    With dy the gradient of a rank's own mean loss, s its share of the rows, n all values of a channel, z the normalised
    values and k = weight / deviation, that rank's gradient is k dy - k (sum(s dy) + z sum(s dy z)) / (n s): sums are
    over all ranks, and whoever averages gradients multiplies by s again.
    """

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor | None, bias: Tensor | None,
        tracked: tuple[Tensor | None, Tensor | None], factor: float, eps: float, ranks: _Ranks,
    ) -> Tensor:  # fmt: skip
        """[N, C, ...]; moves the running mean and variance in `tracked`, which are then the same on all ranks."""
        mean, var = torch.batch_norm_update_stats(inputs, None, None, 0.0)
        rows = inputs.numel() / inputs.shape[1]
        mean, square = mean.double(), var.double() + mean.double().square()
        # In float64: the variance is a difference of these, and a mean far from 0 must not swallow it.
        message = torch.cat([mean * rows, square * rows, mean.new_full((1,), rows)])
        sums = _summed(ranks, message)
        total = sums[-1]
        mean, square = (sums[:-1] / total).chunk(2)
        var = (square - mean.square()).clamp_(min=0.0)
        running_mean, running_var = tracked
        if running_mean is not None and running_var is not None:
            running_mean.lerp_(mean.to(running_mean.dtype), factor)
            running_var.lerp_((var * total / (total - 1.0)).to(running_var.dtype), factor)
        kind = torch.promote_types(inputs.dtype, torch.float32) if weight is None else weight.dtype
        ctx.save_for_backward(inputs, weight, mean.to(kind), var.to(kind), total)
        ctx.eps, ctx.ranks = eps, ranks
        return F.batch_norm(inputs, mean.to(kind), var.to(kind), weight, bias, False, 0.0, eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of inputs, weight and bias: the latter two of the rows here, to be averaged as any others."""
        inputs, weight, mean, var, total = ctx.saved_tensors
        inverse = torch.rsqrt(var + ctx.eps)
        # A GPU takes what a forward pass would have saved, and wants a weight wherever its gradient is asked for.
        whole = torch.ones_like(var) if weight is None else weight
        own, of_weight, of_bias = torch.ops.aten.native_batch_norm_backward(
            grad, inputs, whole, mean, var, mean, inverse, False, ctx.eps, [True, True, True]
        )
        if ctx.needs_input_grad[0]:
            message = torch.cat([of_bias, of_weight]).double() * ctx.ranks.share
            sums = _summed(ctx.ranks, message)
            scale = whole * inverse
            shift, slope = (sums / (-total * ctx.ranks.share)).to(scale.dtype).chunk(2)
            own += F.batch_norm(inputs, mean, var, scale * slope, scale * shift, False, 0.0, ctx.eps)
        wanted = zip((own, of_weight, of_bias), ctx.needs_input_grad[:3], strict=True)
        return *(gradient if needed else None for gradient, needed in wanted), *(None,) * 4


def _summed(ranks: _Ranks, values: Tensor) -> Tensor:
    """The sum over ranks of `values` [n], in place. Raises `PeerLost`."""
    with ranks.waiting():
        ranks.group.sum_start(values, "norm").wait()
    return values


def can_share(module: nn.Module) -> bool:
    """Whether it is batch normalisation as torch makes it; a layer with a forward of its own stays what it is."""
    return isinstance(module, _BatchNorm) and (
        isinstance(module, SyncedNorm) or type(module).forward is _BatchNorm.forward
    )


def share_statistics(net: nn.Module, together: Together) -> None:
    """Have the layers of `net` share their statistics. Names, weights and buffers stay: checkpoints fit both ways.

    All ranks must pass their rows through the same layers in the same order, once per step. Called again, for other
    ranks, only `together` changes.
    """
    for module in net.modules():
        if can_share(module):
            kind = type(module)
            if not isinstance(module, SyncedNorm):
                module.__class__ = type(f"Synced{kind.__name__}", (SyncedNorm, kind), {})
            module.together = together  # type: ignore[assignment]

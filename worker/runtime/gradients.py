"""Averaging of gradients over ranks in two messages, the larger one sent during the backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from worker.runtime.by_host import Pending
from worker.runtime.collective import Group
from worker.runtime.nested import real_view

WISHES = 3
"""Values of each rank besides its gradients: wish to pause, wish to save, share of the time budget that is spent."""
LATE_SHARE = 0.3
"""Of the tensors, in the order of the forward pass, whose gradients go with the last message: the backward pass
comes to them last, and the first layers of a network are small."""
EARLY_MIN_ELEMENTS = 16_384
"""A smaller first message is not worth its own round."""
HEADROOM = 0.99
"""Of what 16 bits hold: a sum of rounded values is rounded again."""


class GradientAverager:
    """Sums row-weighted gradients: with n_r rows on rank r of n, g = sum_r (n_r / n) g_r, exact for unequal shares.

    Floating buffers (batch statistics) are averaged the same way, so that every rank holds the same model. The early
    message leaves as soon as its last gradient is there (the overlap of PyTorch's DDP, Li et al. 2020, with two
    buckets), the late one carries the rest and a few control values. Where a gradient changes after it was sent (a
    second backward pass in the same step), all ranks learn it from the control values and send once more.
    """

    def __init__(
        self,
        net: nn.Module,
        group: Group,
        device: torch.device,
        message_type: torch.dtype | None = None,
        wishes: int = WISHES,
        *,
        scaled: bool = False,
    ) -> None:
        """`message_type`: float16 or bfloat16, to which gradients are rounded on their way; None: sent as they are.
        `wishes`: how many values travel with the gradients. `scaled`: gradients are those of a scaled loss."""
        self._by_host = group.by_host
        weights = [weight for weight in net.parameters() if weight.requires_grad]
        self._frozen = [weight for weight in net.parameters() if not weight.requires_grad]
        first_early = _first_early(weights)
        self._early, self._late = weights[first_early:], weights[:first_early]
        self._trained = [*self._early, *self._late]
        self._buffers = [buffer for buffer in net.buffers() if buffer.is_floating_point()]
        self._early_flat, self._early_views = _flat(self._early, 0, device)
        self._late_flat, late_views = _flat([*self._late, *self._buffers], len(weights) + wishes + 2, device)
        self._late_views, self._buffer_views = late_views[: len(self._late)], late_views[len(self._late) :]
        self.controls = self._late_flat[-wishes - 2 :]
        """The loss, the wishes, and whether a rank's gradients changed after they were sent."""
        self._given = self._late_flat[-wishes - 2 - len(weights) : -wishes - 2]
        """For each weight afterwards above 0 where a rank had a gradient for it."""
        self._early_message = Message(self._early_flat, group, "early", message_type, scaled=scaled)
        self._late_messages = [Message(self._late_flat, group, "late")]
        if message_type is not None:  # statistics and control values are few, and rounding would harm them
            gradients = sum(view.numel() for view in self._late_views)
            self._late_messages = [
                Message(self._late_flat[:gradients], group, "late", message_type, scaled=scaled),
                Message(self._late_flat[gradients:], group, "rest"),
            ]
        self._share: float | None = None
        self._missing: set[int] = set()
        self._sent = False
        self._changed = False
        self._hooks = [
            weight.register_post_accumulate_grad_hook(partial(self._arrived, number))  # type: ignore[no-untyped-call]
            for number, weight in enumerate(self._early)
        ]

    def fits(self) -> bool:
        """Whether the weights that are trained are still those: a program may freeze some, or train more of them."""
        thawed = any(weight.requires_grad for weight in self._frozen)
        return not thawed and all(weight.requires_grad for weight in self._trained)

    def close(self) -> None:
        """Gradients are averaged by another one from here on."""
        for hook in self._hooks:
            hook.remove()

    def begin(self, share: float) -> None:
        """A step begins; `share` = rows here / rows on all ranks. Without it everything is sent at the end."""
        self._share, self._changed = share, False
        self._missing = set(range(len(self._early)))

    @torch.no_grad()
    def average(self, loss: Tensor, share: float, wishes: Sequence[float]) -> None:
        """Replace each gradient by its average. `share` = rows here / rows on all ranks; `wishes` follow the loss in
        `controls`: afterwards these hold the average loss and, over ranks, the sums of the wishes."""
        if not self._sent:
            self._send_early(share)
        _fill(self._late_views, self._late)
        if self._buffers:
            torch._foreach_copy_(self._buffer_views, self._buffers)
        given = [weight.grad is not None for weight in self._trained]
        self._given.copy_(torch.tensor(given))
        self._late_flat[: -len(self.controls)].mul_(share)
        self.controls[0] = loss.detach() * share
        self.controls[1:].copy_(torch.tensor((*wishes, float(self._changed)), dtype=self.controls.dtype))
        for message in self._late_messages:
            message.send(share)
        self._await_early()
        for message in self._late_messages:
            message.wait()
        # Where it stays on GPUs, reading the sum would wait for them at every step: there all ranks must do alike.
        if self.controls[-1] > 0 if self._by_host else self._changed:
            self._send_early(share)
            self._await_early()
        self._give_back(given, is_whole=share > 0 and all(given))
        if self._buffers:
            torch._foreach_copy_(self._buffers, self._buffer_views)
        self._share = None

    def _arrived(self, number: int, _weight: Tensor) -> None:
        """A gradient is complete; the last one of the early part sends it off."""
        if self._share is None:
            return
        if self._sent:
            self._changed = True
            return
        self._missing.discard(number)
        if not self._missing:
            self._send_early(self._share)

    @torch.no_grad()
    def _send_early(self, share: float) -> None:
        if self._early:
            _fill(self._early_views, self._early)
            self._early_flat.mul_(share)
            self._early_message.send(share)
            self._sent = True

    def _give_back(self, given: list[bool], *, is_whole: bool) -> None:
        """Copied, not shared: a program that keeps its gradients between steps must not write into a message.

        A weight for which no rank has a gradient gets none, as in one process: by one of zeros momentum and decay would
        move it. Only a rank that lacks some, or whose own count for nothing, has to look, which on a GPU waits for the
        sum.
        """
        if not is_whole:
            given = (self._given > 0).tolist()
        gradients, views = [], []
        for weight, view, is_given in zip(self._trained, (*self._early_views, *self._late_views), given, strict=True):
            if not is_given:
                weight.grad = None
                continue
            if weight.grad is None or weight.grad.is_conj():  # of `x @ weight.mH`: a view of other values
                weight.grad = torch.empty_like(weight)
            gradients.append(real_view(weight.grad))
            views.append(view)
        if gradients:
            torch._foreach_copy_(gradients, views)

    def _await_early(self) -> None:
        if self._sent:
            self._early_message.wait()
            self._sent = False


class Message:
    """A part of a buffer that is summed over the ranks, as it is or rounded to 16 bits on its way."""

    def __init__(
        self, flat: Tensor, group: Group, name: str, rounded_to: torch.dtype | None = None, *, scaled: bool = False
    ) -> None:
        self._flat, self._group, self._name, self._scaled = flat, group, name, scaled
        self._sent = flat if rounded_to is None else torch.zeros_like(flat, dtype=rounded_to)
        self._pending: Pending | None = None

    def send(self, share: float) -> None:
        """Begin. `share`: of the rows, by which the values are weighted.

        What is beyond the range of 16 bits is sent as their largest, of which clipping makes something, and their sum
        stays in range. What is infinite stays so: such a run is to fail. Of a scaled loss what is beyond the range
        becomes infinite: all ranks leave out the step, and the next loss is scaled by less.
        """
        if not len(self._flat):
            return
        if self._sent is not self._flat:
            as_it_is = self._scaled or self._sent.dtype == torch.bfloat16
            self._sent.copy_(self._flat if as_it_is else self._in_range(share))
        self._pending = self._group.sum_start(self._sent, self._name)

    def _in_range(self, share: float) -> Tensor:
        most = torch.finfo(self._sent.dtype).max * HEADROOM * share
        return torch.where(self._flat.isfinite(), self._flat.clamp(-most, most), self._flat)

    def wait(self) -> None:
        """Until the buffer holds the sum."""
        if self._pending is None:
            return
        self._pending.wait()
        self._pending = None
        if self._sent is not self._flat:
            self._flat.copy_(self._sent)


def _first_early(weights: list[nn.Parameter]) -> int:
    """Number of tensors of the late message; all of them where the early one would be too small."""
    first = max(1, round(len(weights) * LATE_SHARE))
    elements = sum(weight.numel() for weight in weights[first:])
    return first if elements >= EARLY_MIN_ELEMENTS else len(weights)


def _flat(tensors: Sequence[Tensor | nn.Parameter], extra: int, device: torch.device) -> tuple[Tensor, list[Tensor]]:
    """Buffer [elements of all + extra], and one view of it per tensor, of complex ones as pairs; float32, or float64
    where a tensor is that."""
    reals = [real_view(tensor.detach()) for tensor in tensors]
    kind = torch.float64 if any(tensor.dtype == torch.float64 for tensor in reals) else torch.float32
    flat = torch.zeros(sum(tensor.numel() for tensor in reals) + extra, dtype=kind, device=device)
    views, place = [], 0
    for tensor in reals:
        views.append(_view(flat, place, tensor))
        place += tensor.numel()
    return flat, views


def _fill(views: list[Tensor], weights: list[nn.Parameter]) -> None:
    gradients = [
        real_view(weight.grad) if weight.grad is not None else torch.zeros_like(view)
        for weight, view in zip(weights, views, strict=True)
    ]
    if views:
        torch._foreach_copy_(views, gradients)


def _view(flat: Tensor, place: int, like: Tensor) -> Tensor:
    """Part of `flat` with the shape of `like`, and its memory order where that is dense (fused optimizers need it)."""
    if like.is_contiguous() or not torch.ops.aten.is_non_overlapping_and_dense(like):
        return flat[place : place + like.numel()].view(like.shape)
    return flat.as_strided(like.shape, like.stride(), place)


@torch.no_grad()
def broadcast_model(net: nn.Module, group: Group) -> None:
    """Give every rank the weights and buffers of rank 0."""
    tensors = [*net.parameters(), *net.buffers()]
    for kind in sorted({tensor.dtype for tensor in tensors}, key=str):
        same = [tensor for tensor in tensors if tensor.dtype == kind]
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in same])
        group.broadcast_(flat)
        for tensor, piece in zip(same, torch.split(flat, [tensor.numel() for tensor in same]), strict=True):
            tensor.copy_(piece.view(tensor.shape))

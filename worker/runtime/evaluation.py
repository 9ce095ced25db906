"""Outputs of a model on a whole part, shared out over the ranks, and the metrics of an epoch."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from worker.runtime.collective import Group, broadcast_bytes
from worker.runtime.data import Dataset, Part
from worker.runtime.layer_modes import evaluated
from worker.runtime.metrics import metrics_of
from worker.runtime.pulse import pulse

if TYPE_CHECKING:
    from worker.runtime.run import Run

SAMPLE_ROWS = 1000
"""At most this many training rows (and not more than there are validation rows) are evaluated per epoch."""


def train_sample(train: Part, val: Part) -> Part:
    """Evenly spaced training rows that are evaluated beside the validation rows, under the same conditions."""
    return train.evenly(min(len(train), SAMPLE_ROWS, len(val) or SAMPLE_ROWS))


def epoch_metrics(run: Run, net: nn.Module, dataset: Dataset) -> dict[str, dict[str, float]]:
    """Metrics of the validation rows, and of as many training rows, by part: the first rank's, on every rank."""
    parts = {"train": train_sample(dataset.train, dataset.val), "val": dataset.val}
    metrics = {name: metrics_of(dataset, part, run.outputs(net, part)) for name, part in parts.items()}
    if run.group is not None:
        metrics = json.loads(broadcast_bytes(run.group, json.dumps(metrics).encode()))
    return metrics


@torch.no_grad()
def outputs(
    net: nn.Module,
    part: Part,
    device: torch.device,
    rows_at_once: int,
    autocast: AbstractContextManager[Any],
    share: tuple[Group | None, int, int] = (None, 0, 1),
) -> Tensor:
    """float32 [N, outputs] on the CPU, on every rank. Each layer is left in the mode it was in.

    `share`: the group of ranks (None alone), this rank, and their number.
    """
    group, rank, world_size = share
    if len(part) == 0:
        return torch.zeros(0, 1)
    start, stop = len(part) * rank // world_size, len(part) * (rank + 1) // world_size
    pieces = []
    with evaluated(net):
        for first in range(start, stop, rows_at_once):
            rows = slice(first, min(stop, first + rows_at_once))
            with autocast:
                pieces.append(net(*(tensor[rows].to(device) for tensor in part.inputs)).float().cpu())
            pulse.beat()
        if not pieces:  # fewer rows than ranks: this rank has none, but must know the width
            pieces.append(net(*(tensor[:2].to(device) for tensor in part.inputs)).float().cpu()[:0])
    whole = torch.cat(pieces)
    return whole if group is None else group.gather(whole)

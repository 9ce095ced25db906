"""Ranks that average gradients learn what one process learns, on every family, however their rows are shared out."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from codegen.catalog import FAMILIES, OWN
from tests.worker.runtime.pipeline_families import ROWS, alone, models
from tests.worker.runtime.test_gradients import Member, Together
from worker.runtime.gradients import GradientAverager
from worker.runtime.synced_norm import Together as Statistics
from worker.runtime.synced_norm import share_statistics

FURTHEST = 1e-4
"""Of a weight after the steps, relative to the largest of its tensor (float32)."""
SHARES = ((11, 11), (15, 7), (2, 20), (20, 2))
"""Rows of both ranks, another split at every step."""


def by_two_ranks(net: nn.Module, batches: Sequence[Any], *, synced: bool = False) -> list[dict[str, Tensor]]:
    """The weights of both ranks after the steps, clipped as `alone` clips."""
    found: list[dict[str, Tensor]] = []

    def rank(number: int, group: Member) -> None:
        mine, statistics = copy.deepcopy(net), Statistics(group if synced else None)  # type: ignore[arg-type]
        share_statistics(mine, statistics)
        averager = GradientAverager(mine, group, torch.device("cpu"))  # type: ignore[arg-type]
        optimizer = torch.optim.SGD(mine.parameters(), lr=0.05, momentum=0.9)
        for shares, (inputs, targets) in zip(SHARES, batches, strict=True):
            rows = slice(sum(shares[:number]), sum(shares[: number + 1]))
            share = shares[number] / ROWS
            optimizer.zero_grad()
            averager.begin(share)
            statistics.share = share
            loss = F.cross_entropy(mine(*(tensor[rows] for tensor in inputs)), targets[rows])
            loss.backward()
            averager.average(loss, share, (0.0, 0.0, 0.0))
            nn.utils.clip_grad_norm_(mine.parameters(), 1.0)
            optimizer.step()
        found.append(mine.state_dict())

    Together(2).run(rank)
    return found


def with_fixed_statistics(net: nn.Module) -> nn.Module:
    """Batch normalisation is the stated exception: a rank sees other rows at once than one process does."""
    for module in net.modules():
        if isinstance(module, _BatchNorm):
            module.eval()
    return net


def test_two_ranks_learn_what_one_process_learns_on_every_family() -> None:
    seen = set()
    for name, net, batches in models():
        seen.add(name)
        net = with_fixed_statistics(net.train())
        expected = alone(copy.deepcopy(net), batches, 1)
        found = by_two_ranks(net, batches)
        assert len(found) == 2, name
        for state in found:
            for key, tensor in expected.items():
                apart = float((state[key] - tensor).abs().max() / max(1.0, float(tensor.abs().max())))
                assert apart < FURTHEST, (name, key, apart)
    assert seen == set(FAMILIES) - {OWN}

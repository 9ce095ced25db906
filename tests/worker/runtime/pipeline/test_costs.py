"""What the pieces of a model cost, timed on the rows of a step, few as they may be."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from worker.runtime.pipeline.blocks import Chain
from worker.runtime.pipeline.costs import measured_blocks


@pytest.mark.parametrize("batch", [1, 2, 4, 7, 16])
def test_batch_normalisation_is_timed_where_a_step_has_few_rows(batch: int) -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    inputs = [torch.randn(32, 4)]
    blocks = measured_blocks(Chain(net, inputs), inputs, batch, torch.device("cpu"))
    assert len(blocks) == 3 and all(block.forward_s >= 0 and block.activation_bytes > 0 for block in blocks)
    statistics = net[1].running_mean
    assert statistics is not None and not statistics.any()

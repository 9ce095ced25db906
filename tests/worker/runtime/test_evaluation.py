"""Which rows are evaluated, and how the model is left."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import nn

from worker.runtime.data import Part
from worker.runtime.evaluation import SAMPLE_ROWS, outputs, train_sample


def part(rows: int) -> Part:
    """Of so many rows that take no memory."""
    return Part(
        (torch.zeros(1).expand(rows),), torch.zeros(1).expand(rows), torch.zeros(1, dtype=torch.long).expand(rows)
    )


def test_a_part_of_more_rows_than_float32_can_count_has_a_sample_of_rows_that_are_there() -> None:
    for rows in (16_777_220, 20_000_004, 33_554_436):
        assert len(train_sample(part(rows), part(2_000))) == SAMPLE_ROWS


def test_the_first_and_the_last_row_are_in_a_sample() -> None:
    whole = Part((torch.arange(10.0),), torch.zeros(10), torch.arange(10))
    assert [whole.evenly(count).rows.tolist() for count in (0, 1, 2, 4)] == [[], [0], [0, 9], [0, 3, 6, 9]]


def test_a_layer_that_the_program_does_not_train_does_not_after_an_evaluation_either() -> None:
    net = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout(0.5), nn.Linear(2, 1)).train()
    net[0].eval()
    seen: list[bool] = []
    for layer in net:
        layer.register_forward_hook(lambda layer, *_: seen.append(layer.training))
    rows = Part((torch.randn(3, 2),), torch.zeros(3), torch.arange(3))
    assert outputs(net, rows, torch.device("cpu"), 2, nullcontext()).shape == (3, 1)
    assert not any(seen)
    assert [layer.training for layer in (net, *net)] == [True, False, True, True]

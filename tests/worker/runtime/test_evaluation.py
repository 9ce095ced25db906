"""Which rows are evaluated."""

from __future__ import annotations

import torch

from worker.runtime.data import Part
from worker.runtime.evaluation import SAMPLE_ROWS, train_sample


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

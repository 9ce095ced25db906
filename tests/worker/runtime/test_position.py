"""Which epoch is the best, and when patience is spent."""

from __future__ import annotations

import math

import pytest

from worker.runtime.position import Position


def closed(values: list[float], *, patience: int = 0) -> tuple[list[bool], Position]:
    """(which were the best so far, where the run stands), where larger is better."""
    position, best = Position(), []
    for value in values:
        position.close_epoch(value, True, patience)
        best.append(position.is_best)
        position.next_epoch()
    return best, position


def test_an_equal_value_is_the_best_epoch_but_no_improvement() -> None:
    best, position = closed([0.5, 0.5, 0.4], patience=2)
    assert best == [True, True, False]
    assert position.stopped and position.best == 0.5


@pytest.mark.parametrize("nothing", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_is_never_the_best_and_hinders_no_later_one(nothing: float) -> None:
    best, position = closed([nothing, 0.3, nothing, 0.4])
    assert best == [False, True, False, True]
    assert position.best == 0.4
    position.close_epoch(nothing, True, 0)
    assert position.metric is None

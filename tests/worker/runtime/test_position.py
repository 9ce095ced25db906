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


def test_a_best_epoch_of_before_losses_were_told_below_zero_is_none() -> None:
    older = Position(best=0.9, stale_epochs=3).state_dict()
    older.pop("by_loss")
    position = Position()
    position.load_state_dict(older)
    assert position.judge("accuracy", by_loss=True)
    position.close_epoch(-0.5, True, 0)
    assert position.is_best and position.stale_epochs == 0
    again = Position()
    again.load_state_dict(position.state_dict())
    assert not again.judge("accuracy", by_loss=True) and again.best == -0.5
    assert not again.judge("accuracy", by_loss=False) and again.best is None, (
        "the program tells the metric of the spec by now"
    )


def test_a_best_epoch_by_the_metric_of_the_spec_stays_that_of_earlier_checkpoints() -> None:
    older, position = Position(best=0.9).state_dict(), Position()
    older.pop("by_loss")
    position.load_state_dict(older)
    assert not position.judge("accuracy", by_loss=False) and position.best == 0.9


def test_a_run_remembers_every_split_that_it_was_trained_beside() -> None:
    first, then, again = (Position(held_out=(split,)) for split in ("a", "b", "a"))
    then.load_state_dict(first.state_dict())
    assert then.held_out == ("a", "b")
    again.load_state_dict(then.state_dict())
    assert again.held_out == ("b", "a"), "between times it was trained on what is held out now"
    again.load_state_dict(again.state_dict())
    assert again.held_out == ("b", "a")


def test_of_a_checkpoint_that_tells_no_split_nothing_is_held_against_the_one_there_is() -> None:
    older, position = Position().state_dict(), Position(held_out=("b",))
    older.pop("held_out")
    position.load_state_dict(older)
    assert position.held_out == ("b",)


def test_a_best_epoch_by_another_metric_than_the_spec_names_by_now_is_none() -> None:
    position = Position()
    position.judge("accuracy", by_loss=False)
    position.close_epoch(0.9, larger_is_better=True, patience=3)
    again = Position()
    again.load_state_dict(position.state_dict())
    again.judge("log_loss", by_loss=False)
    assert again.best is None
    again.close_epoch(1.5, larger_is_better=False, patience=3)
    assert again.is_best and again.stale_epochs == 0

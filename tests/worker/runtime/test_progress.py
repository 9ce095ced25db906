"""The pace of a run, and what it foretells of its end."""

from __future__ import annotations

import pytest

from worker.runtime.progress import EVALUATION_COST, HALF_LIFE_S, Meter


def after(*paces_s: float, stretch_s: float = 0.3) -> Meter:
    """A meter that has seen a stretch of steps at each of these paces."""
    meter = Meter(0.5)
    for step_s in paces_s:
        meter.steps(round(stretch_s / step_s), 64 * round(stretch_s / step_s), stretch_s)
    return meter


def test_until_some_steps_are_timed_no_end_is_foretold() -> None:
    assert Meter(0.5).eta_s(100, 50) is None
    assert after(0.1).eta_s(100, 50) is None
    assert after(0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1).eta_s(100, 50) is not None


def test_the_rest_is_steps_and_the_ends_of_epochs() -> None:
    meter = after(*[0.01] * 10)
    assert meter.eta_s(100, 50) == pytest.approx(1.0 + 2 * 50 * 0.01 * 0.5 * EVALUATION_COST)
    meter.epoch_end(3.0)
    assert meter.eta_s(100, 50) == pytest.approx(1.0 + 2 * 3.0)


def test_the_stretch_that_sets_things_up_is_not_taken_for_the_pace() -> None:
    meter = after(0.1, *[0.01] * 10)
    meter.epoch_end(0.0)
    assert meter.eta_s(1000, 1000) == pytest.approx(10.0)


def test_a_slow_spell_moves_the_end_by_what_it_took_and_no_more() -> None:
    meter = after(*[0.01] * 200, *[0.02] * 20)
    meter.epoch_end(0.0)
    told_s = meter.eta_s(1000, 1000)
    assert told_s is not None and 10.0 < told_s < 12.0


def test_a_pace_that_stays_is_believed_in_the_end() -> None:
    meter = after(*[0.01] * 200, *[0.02] * round(5 * HALF_LIFE_S / 0.3))
    meter.epoch_end(0.0)
    assert meter.eta_s(1000, 1000) == pytest.approx(20.0, rel=0.05)


def test_the_shown_rate_is_that_of_the_last_seconds() -> None:
    assert after(*[0.01] * 200, *[0.02] * 20).samples_per_s == pytest.approx(64 / 0.02)
    assert Meter(0.5).samples_per_s is None

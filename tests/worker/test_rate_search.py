"""The search of a learning rate: it ends, keeps to its cost, and finds what losses without noise show."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.rate_search import (
    FIRST_SHARE,
    HIGHEST,
    LOWEST,
    SECOND_MOST,
    SPAN_LEAST,
    STEP,
    Trial,
    best_of,
    most_share,
    next_trial,
    range_fault,
)

Losses = Callable[[int, float], float | None]


def searched(centre: float, loss: Losses, scale: float = 1.0) -> list[Trial]:
    """All trials of a search, each with the loss that `loss` tells for its round and rate."""
    done: list[Trial] = []
    while wanted := next_trial(centre, scale, done):
        told = loss(wanted.round, wanted.rate)
        done.append(Trial(round=wanted.round, rate=wanted.rate, share=wanted.share, loss=told))
        assert len(done) < 50
    return done


def bowl(best: float) -> Losses:
    """Losses that are smallest at one rate."""
    return lambda _round, rate: 1.0 + math.log10(rate / best) ** 2


def share(trials: list[Trial]) -> float:
    return sum(trial.share for trial in trials)


losses_any = st.lists(st.one_of(st.none(), st.floats(-1e300, 1e300)), min_size=40, max_size=40)


@given(st.floats(1e-8, 100.0), st.floats(0.1, 1.0), losses_any)
def test_any_search_ends_within_its_cost_and_tries_no_rate_twice_in_a_round(
    centre: float, scale: float, losses: list[float | None]
) -> None:
    told = iter(losses)
    done = searched(centre, lambda _round, _rate: next(told), scale)
    assert share(done) <= most_share() * scale * (1 + 1e-9)
    assert len({(trial.round, trial.rate) for trial in done}) == len(done)
    assert done[0].rate == centre and {trial.round for trial in done} == {1, 2}


@given(st.sampled_from([1e-30, LOWEST, HIGHEST, 1e30]), losses_any)
def test_no_rate_beyond_the_bounds_is_tried(centre: float, losses: list[float | None]) -> None:
    told = iter(losses)
    done = searched(centre, lambda _round, _rate: next(told))
    assert all(LOWEST <= trial.rate <= HIGHEST for trial in done)
    assert len({(trial.round, trial.rate) for trial in done}) == len(done)


@given(st.floats(-4.0, 0.0), st.floats(-1.0, 0.5))
def test_without_noise_the_last_round_holds_the_best_rate_between_its_ends(centre: float, off: float) -> None:
    """A short run's best rate lies higher by as much as it is shorter."""
    best = 10 ** (centre + off)
    done = searched(10**centre, lambda number, rate: bowl(best if number == 2 else best / FIRST_SHARE)(number, rate))
    last = [trial for trial in done if trial.round == 2]
    assert abs(math.log10(best_of(last).rate / best)) <= STEP / 2 + 1e-9
    assert min(trial.rate for trial in last) < best < max(trial.rate for trial in last)


def test_the_last_round_goes_on_beyond_the_end_where_the_best_is_as_far_as_it_may() -> None:
    for best in (1e-9, 1e5):
        last = [trial for trial in searched(1e-2, bowl(best)) if trial.round == 2]
        assert len(last) == SECOND_MOST
        assert best_of(last).rate in (min(trial.rate for trial in last), max(trial.rate for trial in last))
        assert best_of(last) == last[-1]


def test_rates_without_a_finite_loss_send_the_search_to_smaller_ones() -> None:
    done = searched(1.0, lambda _round, _rate: None)
    lowest_first = min(trial.rate for trial in done if trial.round == 1)
    assert lowest_first == pytest.approx(10**-STEP)
    assert min(trial.rate for trial in done) == done[-1].rate < lowest_first * FIRST_SHARE


@given(st.floats(0.1, 1.0))
def test_a_shorter_search_tries_the_same_rates(scale: float) -> None:
    full, short = searched(1e-3, bowl(3e-2)), searched(1e-3, bowl(3e-2), scale)
    assert [trial.rate for trial in full] == [trial.rate for trial in short]
    assert share(short) == pytest.approx(scale * share(full))


some_rate = st.floats(min_value=LOWEST, max_value=HIGHEST)


@given(low=some_rate, high=some_rate)
def test_a_range_test_takes_rates_that_lie_far_enough_apart_and_says_which_would(low: float, high: float) -> None:
    fault = range_fault(low, high)
    assert (fault is None) == (high * (1 + 1e-9) >= SPAN_LEAST * low)
    assert fault is None or f"{fault.field} " in fault.hint


@given(digit=st.integers(1, 9), decade=st.integers(-12, -1))
def test_rates_just_two_decades_apart_are_taken_whatever_their_binary_fractions(digit: int, decade: int) -> None:
    assert range_fault(float(f"{digit}e{decade}"), float(f"{digit}e{decade + 2}")) is None


@given(low=some_rate, high=some_rate)
def test_what_is_told_instead_of_rates_too_close_together_is_taken(low: float, high: float) -> None:
    fault = range_fault(low, high)
    for name, rate in re.findall(r"(low|high) (\S+) or", fault.hint if fault else ""):
        assert range_fault(**{"low": low, "high": high, name: float(rate)}) is None


def test_the_rates_of_a_range_test_are_told_as_they_were_asked_for() -> None:
    fault = range_fault(20.0, None, prefix="--")
    assert fault is not None and fault.field == "low"
    assert fault.message == "--low 20 must be at most a hundredth of --high 10."
    assert fault.hint == "Give --low 0.1 or less."  # a high of 2000 is none
    assert range_fault(10.0 / SPAN_LEAST, None) is None
    fault = range_fault(1e-3, 1e-2)
    assert fault is not None and (fault.field, fault.hint) == ("high", "Give low 0.0001 or less, or high 0.1 or more.")
    fault = range_fault(float("nan"), None)
    assert fault is not None and fault.field == "low"

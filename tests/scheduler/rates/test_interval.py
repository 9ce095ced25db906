"""Readings of range tests: known curves, any curve, and curves that say nothing."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.rates.fits import log_fit, polynomial_fit
from scheduler.rates.interval import RateRange, RateUnclear, rate_range
from scheduler.rates.marks import running_average, steepest, valley
from scheduler.rates.record import RangeRecord, Sweep, joined, smooth
from tests.factory_rates import record_make

RATES = tuple(float(rate) for rate in np.geomspace(1e-6, 10.0, 60))


def one(losses: list[float], rates: tuple[float, ...] = RATES) -> RangeRecord:
    scores = (math.nan,) * len(losses)
    return RangeRecord(rates=rates, sweeps=(Sweep(losses=tuple(losses), scores=scores),))


@pytest.mark.parametrize("scored", [True, False])
@pytest.mark.parametrize(("begin", "best"), [(1e-5, 1e-2), (1e-4, 1e-2), (3e-3, 0.3)])
def test_the_interval_holds_the_fall_of_a_known_curve(begin: float, best: float, scored: bool) -> None:
    found = rate_range(record_make(begin=begin, best=best, scored=scored))
    assert begin / 3 < found.low < 5 * begin
    assert best / 3 < found.high < 3 * best
    assert found.low < found.centre < found.high
    assert found.loss_fit.explained > 0.95
    assert found.log_fit is not None
    assert found.log_fit_of == ("score" if scored else "loss")
    assert bool(found.score) == scored
    assert found.diverged_at is not None and found.diverged_at > best


def test_the_logarithmic_law_finds_its_start_and_slope() -> None:
    x = np.linspace(-6.0, -1.0, 80)
    law = log_fit(x, 0.1 + 0.3 * np.maximum(0.0, x + 4.0))
    assert law is not None
    assert law.start_x == pytest.approx(-4.0, abs=0.06)
    assert law.slope == pytest.approx(0.3, rel=0.03)
    assert law.explained > 0.999
    assert log_fit(x, -x) is None


def test_the_order_of_the_polynomial_follows_the_curve() -> None:
    x = np.linspace(-5.0, 0.0, 90)
    noise = 0.01 * np.random.default_rng(1).normal(size=90)
    assert polynomial_fit(x, x**3 + noise).degree <= 4
    wiggly = polynomial_fit(x, np.sin(2.2 * x) + noise)
    assert wiggly.degree >= 6 and wiggly.explained > 0.99


def test_readings_in_the_manner_of_fastai() -> None:
    losses = np.concatenate([np.full(20, 2.0), np.linspace(2.0, 0.5, 20), np.linspace(0.5, 9.0, 20)])
    assert RATES[20] < valley(np.asarray(RATES), losses) < RATES[45]
    assert RATES[19] <= steepest(np.asarray(RATES), losses) <= RATES[41]
    assert running_average(np.ones(5)) == pytest.approx(np.ones(5))


curves = st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), min_size=0, max_size=60)


@given(curves)
@settings(max_examples=150, deadline=None)
def test_any_curve_gives_an_interval_around_its_centre_or_says_why_not(losses: list[float]) -> None:
    try:
        found = rate_range(one(losses))
    except RateUnclear as unclear:
        assert unclear.code in {"too_few_points", "flat", "diverges_at_once"}
        assert unclear.message and unclear.hint
        return
    assert 0 < found.low < found.centre < found.high < math.inf
    body = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert RateRange.from_dict(body) == found


@given(
    seed=st.integers(0, 999), begin=st.floats(-5.0, -3.0), width=st.floats(1.0, 3.0), scale=st.floats(1e-6, 1e6),
    noise=st.floats(0.0, 0.1),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_the_reading_is_the_same_for_a_loss_in_any_unit_and_each_time(
    seed: int, begin: float, width: float, scale: float, noise: float
) -> None:
    known = {"seed": seed, "begin": 10**begin, "best": 10 ** (begin + width), "noise": noise}
    first, scaled = rate_range(record_make(**known)), rate_range(record_make(**known, scale=scale))
    assert rate_range(record_make(**known)) == first
    for name in ("low", "centre", "high"):
        assert getattr(scaled, name) == pytest.approx(getattr(first, name), rel=1e-3)
    assert first.low < first.centre < first.high


def test_what_came_after_the_first_loss_that_is_no_number_does_not_count() -> None:
    record = record_make()
    losses = list(record.sweeps[0].losses)
    cut = RangeRecord(rates=record.rates, sweeps=(Sweep(losses=tuple(losses), scores=(math.nan,) * 120),))
    wrong = losses[:90] + [math.nan] + [0.0] * 29
    broken = RangeRecord(rates=record.rates, sweeps=(Sweep(losses=tuple(wrong), scores=(math.nan,) * 120),))
    assert rate_range(broken).high == pytest.approx(rate_range(cut).high, rel=0.5)
    assert len(rate_range(broken).rates) == 90


@pytest.mark.parametrize(
    ("losses", "code"),
    [
        ([], "too_few_points"),
        ([2.0] * 10, "too_few_points"),
        ([2.0] * 60, "flat"),
        ([2.0 + 0.1 * math.sin(7 * step) for step in range(60)], "flat"),
        ([math.nan] * 60, "diverges_at_once"),
        ([2.0, 2.0, math.inf] + [1.0] * 57, "diverges_at_once"),
        ([2.0 * 1.15**step for step in range(60)], "diverges_at_once"),
    ],
)
def test_a_curve_that_says_nothing_is_refused_with_its_reason(losses: list[float], code: str) -> None:
    with pytest.raises(RateUnclear) as refused:
        rate_range(one(losses))
    assert refused.value.code == code


def test_a_loss_that_still_falls_at_the_end_is_told() -> None:
    found = rate_range(one([2.3] * 20 + [2.3 - 0.05 * step for step in range(40)]))
    assert any("larger ones" in note for note in found.notes)
    assert found.diverged_at is None


def test_a_loss_that_falls_until_it_is_no_number_asks_for_no_larger_rates() -> None:
    falls = [2.3] * 20 + [2.3 - 0.05 * step for step in range(30)]
    found = rate_range(one([*falls, math.nan]))
    assert found.diverged_at == pytest.approx(RATES[50]) and found.high < RATES[50]
    (note,) = found.notes
    assert f"At {RATES[50]:.2g} the loss is no finite number" in note and "larger ones may be better" not in note
    assert "nothing is known of larger rates" in note and "cannot be used" not in note


@pytest.mark.parametrize("steps", [12, 19])
def test_a_sweep_that_ended_since_its_loss_had_left_asks_for_a_smaller_rate_and_not_for_more_steps(steps: int) -> None:
    with pytest.raises(RateUnclear, match=f"has left for good after {steps} of {len(RATES)} steps") as refused:
        rate_range(one([*[2.3] * (steps - 4), 5.0, 9.0, 20.0, 60.0]))
    assert refused.value.code == "diverges_at_once" and "smaller rate" in refused.value.hint


def test_a_short_sweep_whose_loss_only_jitters_is_not_told_to_have_left() -> None:
    """A program may end its loop by itself; a single large loss among the last is noise."""
    with pytest.raises(RateUnclear) as refused:
        rate_range(one([1.0, 2.1, 0.6, 1.4, 0.7, 1.1, 0.5, 1.3, 0.8, 1.0, 0.9, 1.9]))
    assert refused.value.code == "too_few_points"


def test_sweeps_are_joined_by_their_median_as_far_as_half_of_them_came() -> None:
    sweeps = tuple(
        Sweep(losses=tuple(losses), scores=(math.nan,) * len(losses))
        for losses in ([1.0, 2.0, 3.0, 4.0], [1.0, 4.0, math.nan], [3.0, 6.0])
    )
    rates, losses, scores = joined(RangeRecord(rates=RATES, sweeps=sweeps))
    assert len(rates) == 3
    assert losses[:2] == pytest.approx([1.0, 4.0])
    assert math.isnan(losses[2]) and np.isnan(scores).all()


def test_smoothing_moves_no_valley_to_later_rates() -> None:
    values = np.abs(np.arange(101.0) - 50.0)
    assert int(np.argmin(smooth(values))) == 50


@pytest.mark.parametrize(
    "body",
    [
        {}, {"rates": [1.0], "sweeps": []}, {"rates": [2.0, 1.0], "sweeps": [{"losses": [1.0], "scores": [None]}]},
        {"rates": [0.0, 1.0], "sweeps": [{"losses": [], "scores": []}]}, {"rates": "no", "sweeps": [1]},
        {"rates": [1.0], "sweeps": [{"losses": [1.0, 2.0], "scores": [None, None]}]},
        {"rates": [1.0, 2.0], "sweeps": [{"losses": [1.0], "scores": []}]},
    ],
)  # fmt: skip
def test_what_is_no_record_is_refused(body: dict) -> None:
    with pytest.raises(ValueError, match=r"."):
        RangeRecord.from_dict(body)


def test_a_record_survives_json() -> None:
    record = record_make(scored=True)
    again = RangeRecord.from_dict(json.loads(json.dumps(record.to_dict(), allow_nan=False)))
    assert again == record

"""What trials say: the best of the last round, a vertex between tried rates, and when they are worth their time."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.rates.trials import (
    LEAST_SCALE,
    LIMITS_S,
    RateUnclear,
    TrialsRecord,
    most_share,
    trial_choice,
    trials_asked_s,
    trials_left_out,
    trials_s,
    trials_scale,
)
from worker.rate_search import Trial

Told = tuple[int, float, float | None]


def record(*told: Told) -> TrialsRecord:
    done = tuple(Trial(round=number, rate=rate, share=0.1, loss=loss) for number, rate, loss in told)
    return TrialsRecord(centre=1e-2, scale=1.0, done=done)


def bowl(rates: Sequence[float], best: float, scale: float = 1.0) -> list[Told]:
    return [(2, rate, scale * (1.0 + math.log10(rate / best) ** 2)) for rate in rates]


@given(st.floats(-3.2, -1.8), st.floats(1e-6, 1e6))
def test_the_vertex_of_a_parabola_is_found_in_any_unit_of_the_loss(best: float, scale: float) -> None:
    found = trial_choice(record(*bowl((1e-4, 1e-3, 1e-2, 1e-1), 10**best, scale)))
    if abs(best + 2.5) > 0.01:  # else two rates tie
        assert math.log10(found.rate) == pytest.approx(best, abs=1e-3)
    assert not found.notes


@given(st.lists(st.tuples(st.integers(1, 2), st.floats(1e-6, 10.0), st.one_of(st.none(), st.floats(0.0, 1e9)))))
def test_any_trials_give_a_rate_between_those_tried_or_say_why_not(told: list[Told]) -> None:
    told = told[:40]
    try:
        found = trial_choice(record(*told))
    except RateUnclear as unclear:
        assert unclear.code == "no_trial" and unclear.hint
        assert all(loss is None for _, _, loss in told)
        return
    rates = [rate for _, rate, loss in told if loss is not None]
    assert found.best in rates
    assert min(rate for _, rate, _ in told) <= found.rate * (1 + 1e-9)
    assert found.rate <= max(rate for _, rate, _ in told) * (1 + 1e-9)


def test_losses_of_shorter_trials_do_not_count_beside_longer_ones() -> None:
    found = trial_choice(record((1, 1e-2, 0.1), (1, 1e-3, 0.2), (2, 1e-2, 5.0), (2, 1e-3, 4.0), (2, 1e-4, 4.5)))
    assert found.best == 1e-3
    assert 1e-3 / 10**0.5 <= found.rate <= 1e-3 * 10**0.5


def test_a_round_in_which_nothing_was_finite_leaves_the_one_before() -> None:
    assert trial_choice(record((1, 1e-2, 0.3), (1, 1e-1, 0.4), (2, 1e-2, None))).best == 1e-2


def test_that_a_rate_rests_on_short_trainings_alone_is_told_with_what_became_of_longer_ones() -> None:
    short: list[Told] = [(1, 1e-2, 0.4), (1, 1e-1, 0.3)]
    (cut,) = trial_choice(record(*short)).notes
    assert cut.startswith("Time ran out") and "may be too large for the run" in cut
    (diverged,) = trial_choice(record(*short, (2, 1e-2, None), (2, 2e-3, None))).notes
    assert "the one with 0.002 neither" in diverged and "Time ran out" not in diverged
    assert "may be too large for the run. Take a smaller one" in diverged
    assert trial_choice(record(*short, (2, 1e-3, 1.0), (2, 1e-2, 0.9), (2, 2e-2, None))).notes == ()


@pytest.mark.parametrize(("best", "side"), [(1e-7, "smaller"), (1e3, "larger")])
def test_a_best_rate_at_an_end_is_told(best: float, side: str) -> None:
    found = trial_choice(record(*bowl((1e-3, 1e-2, 1e-1), best)))
    assert found.rate == found.best
    assert side in found.notes[0]


@given(st.floats(1e-3, 1e9), st.floats(1e-3, 1e6))
def test_trials_keep_to_the_time_they_are_allowed_or_are_not_made(run_s: float, limit_s: float) -> None:
    scale = trials_scale(run_s, limit_s)
    assert scale == 0.0 or LEAST_SCALE <= scale <= 1.0
    assert trials_s(run_s, scale) <= limit_s * (1 + 1e-9)
    if not scale:
        assert limit_s < run_s * most_share() * LEAST_SCALE * (1 + 1e-9)


def test_trials_are_to_be_asked_for_only_where_they_are_made_then() -> None:
    assert trials_left_out("auto", 1.0) == ""
    assert "ask for them" in trials_left_out("auto", 100.0) and trials_left_out("always", 100.0) == ""
    assert trials_left_out("auto", 3600.0) == trials_left_out("always", 3600.0)
    assert "too long on this device" in trials_left_out("always", 3600.0)


def test_what_is_expected_of_trials_that_are_to_be_asked_for_is_what_they_take_then() -> None:
    assert trials_asked_s(100.0) == pytest.approx(100.0 * most_share())
    assert trials_asked_s(300.0) == pytest.approx(LIMITS_S["always"])
    assert trials_asked_s(3600.0) == pytest.approx(3600.0 * most_share())


@pytest.mark.parametrize("run_s", [0.0, math.nan, math.inf])
def test_trials_of_a_run_of_unknown_length_are_not_told_to_take_too_long(run_s: float) -> None:
    for wish in ("auto", "always"):
        assert trials_left_out(wish, run_s) == "How long the run would take is not known."
    assert "not asked for" in trials_left_out("never", run_s)


def test_a_wish_that_nobody_knows_any_more_makes_no_trials_and_no_error() -> None:
    assert "ask for them" in trials_left_out("often", 1.0)


@pytest.mark.parametrize("run_s", [0.0, -1.0, math.nan, math.inf])
def test_a_run_of_unknown_length_is_not_tried(run_s: float) -> None:
    assert trials_scale(run_s, 60.0) == 0.0


def test_a_record_survives_json() -> None:
    told = record((1, 1e-2, 0.5), (2, 1e-3, None))
    assert TrialsRecord.from_dict(json.loads(json.dumps(told.to_dict(), allow_nan=False))) == told


@pytest.mark.parametrize(
    "body",
    [
        {}, {"centre": 1.0, "scale": 1.0, "done": [1]}, {"centre": 1.0, "scale": 1.0, "done": "no"},
        {"centre": None, "scale": 1.0, "done": []},
        *({"centre": 1.0, "scale": 1.0, "done": [{"round": 1, "rate": 0.1, "share": 0.1, "loss": 1.0} | wrong]}
          for wrong in ({"rate": 0.0}, {"rate": 1e9}, {"share": 2.0}, {"round": 0}, {"loss": math.inf}, {"rate": "x"})),
        {"centre": 1.0, "scale": 1.0, "done": [{"round": 1, "rate": 0.1, "share": 0.1, "loss": 1.0}] * 41},
    ],
)  # fmt: skip
def test_what_is_no_record_is_refused(body: dict) -> None:
    with pytest.raises(ValueError, match=r"."):
        TrialsRecord.from_dict(body)

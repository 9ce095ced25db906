from __future__ import annotations

import pytest

from scheduler.offers.words import duration_words, energy_range_words, energy_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "0 s"), (41.2, "42 s"), (119, "2 min"), (5400, "1 h 30 min"), (7200, "2 h"), (190_000, "2 d 5 h")],
)
def test_durations_are_rounded_up(seconds, words):
    assert duration_words(seconds) == words


def test_a_range_of_energy_has_one_unit():
    assert energy_words(97.0) == "97 J" and energy_words(2400.0) == "0.667 Wh"
    assert energy_range_words(460.0, 2400.0) == "0.128 to 0.667 Wh"
    assert energy_range_words(46.0, 240.0) == "46 to 240 J"
    assert energy_range_words(3.6e5, 7.2e6) == "0.1 to 2 kWh"


def test_energy_beside_a_larger_one_has_its_unit():
    assert energy_words(419.0, beside_j=1300.0) == "0.116 Wh" and energy_words(419.0, beside_j=700.0) == "419 J"
    assert energy_range_words(140.0, 900.0, beside_j=5000.0) == "0.0389 to 0.25 Wh"

from __future__ import annotations

from scheduler.offers.words import energy_range_words, energy_words


def test_a_range_of_energy_has_one_unit():
    assert energy_words(97.0) == "97 J" and energy_words(2400.0) == "0.667 Wh"
    assert energy_range_words(460.0, 2400.0) == "0.128 to 0.667 Wh"
    assert energy_range_words(46.0, 240.0) == "46 to 240 J"
    assert energy_range_words(3.6e5, 7.2e6) == "0.1 to 2 kWh"


def test_energy_beside_a_larger_one_has_its_unit():
    assert energy_words(419.0, beside_j=1300.0) == "0.116 Wh" and energy_words(419.0, beside_j=700.0) == "419 J"
    assert energy_range_words(140.0, 900.0, beside_j=5000.0) == "0.0389 to 0.25 Wh"


def test_an_end_of_which_little_would_be_left_in_the_larger_unit_has_its_own():
    assert energy_range_words(100.0, 4e6) == "100 J to 1.11 kWh"
    assert energy_range_words(0.5, 4000.0) == "0.5 J to 1.11 Wh"
    assert energy_range_words(3600.0, 4e6) == "0.001 to 1.11 kWh" and energy_range_words(0.0, 4e6) == "0 to 1.11 kWh"
    assert energy_words(3.0, beside_j=4e6) == "3 J"
    assert energy_range_words(3.0, 2400.0, beside_j=4e6) == "3 J to 0.667 Wh"

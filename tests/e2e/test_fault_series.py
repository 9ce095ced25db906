"""Fifty random kills, pauses and cancels in a row."""

import pytest

from tests.e2e.kills import OF_RUNS, PARTS
from tests.e2e.steered import Series

pytestmark = pytest.mark.stack
ACTS, SEED = 50, 4


def test_after_each_of_fifty_random_kills_pauses_and_cancels_all_is_as_it_should_be(stack, wine):
    series = Series(stack, wine, SEED)
    series.run(ACTS)
    assert series.done.total() >= ACTS
    assert set(series.done) == {*PARTS, *OF_RUNS, "pause", "cancel"}

"""A series of random acts of people."""

import pytest

from tests.e2e.acts import OF_JOBS, OF_POOL, Crowd
from tests.e2e.held import NAPPING_CHAIN

pytestmark = pytest.mark.stack
ACTS, SEED = 60, 2


def test_after_random_acts_every_job_is_over_and_nothing_is_left(stack, wine):
    told = Crowd(stack, wine, SEED, NAPPING_CHAIN).run(ACTS)
    assert set(told.acts) == {*OF_JOBS, *OF_POOL}, "the series left an act out"
    assert told.refused, "nothing was refused"
    assert told.states["succeeded"] and set(told.states) <= {"succeeded", "cancelled", "draft"}

"""A series of random kills; fifty in a row: `make bench-faults`."""

from functools import partial

import pytest

from tests.e2e.held import NAPPING_CHAIN
from tests.e2e.kills import KINDS, Storm
from tests.postgres import database_cut

pytestmark = [pytest.mark.stack, pytest.mark.both_databases]
KILLS, SEED = 10, 4


def test_after_random_kills_every_job_has_succeeded_and_nothing_is_left(stack, wine):
    url = stack.environment.get("DLH_DATABASE_URL")
    cut = partial(database_cut, url) if url else None
    told = Storm(stack, wine, SEED, NAPPING_CHAIN, cut).run(KILLS)  # as long a run, of which most is sleep
    assert told.kills.total() == KILLS
    assert len(told.kills) >= 4, "the series killed too few kinds of things"
    assert set(told.jobs) == set(KINDS)
    assert told.attempts == told.jobs.total() + told.lost + told.pauses

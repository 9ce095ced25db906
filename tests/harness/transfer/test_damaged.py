"""A run never trains on what became damaged in its node's cache, and is not blamed for it."""

from __future__ import annotations

import pytest
from django.conf import settings

from tests.worker.transfer.test_scrub import flip
from worker.attempt import Attempt
from worker.cause import failure
from worker.events import FailureCode, Outcome
from worker.transfer import depot as depots
from worker.transfer.carrier import Carrier
from worker.transfer.scrub import Scrub

FAILED = (Outcome.FAILED, failure(FailureCode.PROGRAM_ERROR, "The table cannot be read."))
LOST = (Outcome.LOST, failure(FailureCode.NODE_LOST, "The node was shut down."))


def never() -> bool:
    return False


def bring(depot, plan, here):
    brought = depot.run_bring(plan, here, first=True, stopped=never)
    brought.release()
    return brought


@pytest.fixture
def carrier(depot, plan, here):
    """Of an attempt whose data are here."""
    made = Carrier(Attempt(plan, here, "node-1"), depot)
    made.bring(never)
    yield made
    made.ended(Outcome.CANCELLED, None, lambda: True)
    made.close()


@pytest.fixture
def table(depot, carrier):
    return next(depot.cache.root.glob("contents/*/table.parquet"))


def test_a_bit_that_flipped_in_the_cache_is_found_before_the_run_and_the_file_fetched_again(depot, plan, here, job):
    packed = settings.STORE.dataset(job.dataset.sha256).packed
    here_file = bring(depot, plan, here).dataset.path / "table.parquet"
    flip(here_file)
    again = bring(depot, plan, here)
    assert here_file.read_bytes() == (packed / "table.parquet").read_bytes()
    assert again.damaged == ["table.parquet"] and again.fetched_bytes >= here_file.stat().st_size
    assert "had become damaged" in again.told("node-1")["message"]
    assert depot.cache.damages()[0]["files"] == ["table.parquet"]
    assert not list((depot.cache.root / "damaged").iterdir())
    assert not bring(depot, plan, here).damaged


def test_a_damaged_program_is_not_run(depot, plan, here, store):
    bring(depot, plan, here)
    flip(next(depot.cache.root.glob("contents/*/train.py")))
    bring(depot, plan, here)
    assert (here.program / "train.py").read_bytes() == (store.program / "train.py").read_bytes()


def test_what_is_too_large_to_be_hashed_before_the_run_is_looked_through_beside_it(
    depot, plan, here, carrier, table, monkeypatch
):
    monkeypatch.setattr(depots, "CHECK_S", 0.0)
    flip(table)
    second = Carrier(Attempt(plan, here, "node-1"), depot)
    second.bring(never)
    assert not second.data_aside
    scrub = Scrub(depot.cache)
    while scrub.step():  # the program is looked through, too, before or after the data
        pass
    assert second.data_aside and carrier.data_aside
    outcome, cause = second.data_judge(*LOST, never)
    assert outcome is Outcome.LOST and "had become damaged" in cause["message"]
    second.ended(Outcome.CANCELLED, None, lambda: True)
    second.close()


def test_a_program_that_broke_over_damaged_data_is_started_again(carrier, table):
    assert carrier.data_judge(*FAILED, never) == FAILED
    flip(table)
    outcome, cause = carrier.data_judge(*FAILED, never)
    assert outcome is Outcome.LOST and "had become damaged" in cause["message"]
    assert not table.exists()


def test_an_end_that_needs_no_excuse_stands(carrier, table):
    flip(table)
    assert carrier.data_judge(*LOST, never) == LOST
    assert carrier.data_judge(Outcome.SUCCEEDED, None, never) == (Outcome.SUCCEEDED, None)

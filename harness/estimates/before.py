"""The range test that comes by itself before a run, as offers for a draft and for a bare spec count it. Reads only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from django.utils import timezone

from harness.estimates.rate_wishes import UNASKED_WAIT_LIMIT_S
from scheduler.estimation.values import Allocation, Estimate
from scheduler.offers.candidates import Candidate
from scheduler.offers.values import Offer
from scheduler.offers.words import energy_words
from scheduler.rates.worth import MOST_SHARE, RangeCost, is_worth, range_cost_of, too_few_steps
from worker.words import duration_words, percent_words


def leaves_no_time(deadline_at: datetime | None, run_most_s: float, cost: RangeCost) -> bool:
    """Whether a test, and the wait for it, could cost a run that takes at most `run_most_s` its requested finish."""
    if deadline_at is None:
        return False
    return timezone.now() + timedelta(seconds=run_most_s + cost.time_s + UNASKED_WAIT_LIMIT_S) > deadline_at


def with_tests(
    untested_steps: float | None,
    ways: tuple[Candidate, ...],
    estimates: Mapping[Allocation, Estimate],
    deadline_at: datetime | None,
) -> tuple[Candidate, ...]:
    """The ways to make a run of so many steps, with what comes before them; None: no test may come.

    `deadline_at`: of the offer, which whoever takes it has in the spec then.
    """
    if untested_steps is None or too_few_steps(untested_steps):
        return ways
    costs = {kind: range_cost_of(estimates.values(), kind) for kind in {way.allocation.kind for way in ways}}

    def preceded(way: Candidate) -> Candidate:
        cost, run_s = costs[way.allocation.kind], estimates[way.allocation].run_s
        if cost is None or not is_worth(cost, run_s.mid) or leaves_no_time(deadline_at, run_s.high, cost):
            return way
        return replace(way, before=cost)

    return tuple(map(preceded, ways))


def tests_told(offer: Offer) -> list[str]:
    """What comes before a run, and is counted."""
    lines = [line for line in offer.lines if line.before_s]
    if not lines:
        return []
    most = max(lines, key=lambda line: line.before_s)
    return [
        f"The batch is not the usual one: a range test finds the learning rate before each run of which that takes "
        f"{percent_words(MOST_SHARE, 0)} at most, about {duration_words(most.before_s, up=True)} and "
        f"{energy_words(most.before_j)} ({most.estimate.energy_basis}). Starts, finishes and energy include it."
    ]

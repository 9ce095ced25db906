"""Which learning rates are tried, for how long, and where the search goes on: two rounds of trainings.

Round 1 makes short trials around a centre, a step of `STEP` decades apart. A short run likes larger rates than a long
one, since it is the product of rate and steps that moves the weights: its best rate, times its share of the run, is
where round 2 begins. That one trains to the run's end, to both sides and on beyond the end where the best lies, as
far as its trials reach. Losses of different rounds are never compared.

Pure and stateless: what was done decides what comes next. The node runs it; `scheduler.rates.trials` reads what it did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LOWEST, HIGHEST = 1e-12, 100.0
"""No rate outside is tried; a spec takes none above, either."""
STEP = 2.0 / 3.0
START = (0.0, -1.0, 1.0)
"""Steps from where a round begins."""
FIRST_SHARE = 1.0 / 8.0
SECOND_SHARE, SECOND_MOST = 1.0, 4


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A trial to be made."""

    round: int
    rate: float
    share: float
    """Of the run's steps."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A trial that was made."""

    round: int
    rate: float
    share: float
    loss: float | None
    """Of the validation rows after its last step; None: it was no finite number."""


def most_share() -> float:
    """Of the run's steps, that all trials together make at most, at full length."""
    return len(START) * FIRST_SHARE + SECOND_MOST * SECOND_SHARE


def next_trial(centre: float, scale: float, done: Sequence[Trial]) -> Wanted | None:
    """What to try after `done`; None: nothing any more. `scale` shortens every trial."""
    first, second = ([trial for trial in done if trial.round == number] for number in (1, 2))
    if len(first) < len(START):
        return Wanted(round=1, rate=_around(_within(centre), START[len(first)]), share=FIRST_SHARE * scale)
    rate = _second(best_of(first).rate * FIRST_SHARE / SECOND_SHARE, second)
    return None if rate is None else Wanted(round=2, rate=rate, share=SECOND_SHARE * scale)


def _second(start: float, second: Sequence[Trial]) -> float | None:
    if len(second) < len(START):
        return _around(_within(start), START[len(second)])
    rates = [trial.rate for trial in second]
    best = best_of(second).rate
    if len(second) >= SECOND_MOST or best not in (min(rates), max(rates)):
        return None
    further = _moved(best, 1.0 if best == max(rates) else -1.0)
    return further if _within(further) == further else None


def _around(rate: float, steps: float) -> float:
    """So many steps from a rate; beyond a bound, where no rate is tried, twice as many to the other side."""
    found = _moved(rate, steps)
    return found if _within(found) == found else _moved(rate, -2.0 * steps)


def _moved(rate: float, steps: float) -> float:
    return rate * 10 ** (STEP * steps)


def _within(rate: float) -> float:
    return min(HIGHEST, max(LOWEST, rate))


def best_of(trials: Sequence[Trial]) -> Trial:
    """The one with the smallest loss; of equals, and where no loss is a number, the smallest rate."""
    return min(trials, key=lambda trial: (math.inf if trial.loss is None else trial.loss, trial.rate))

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
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

LOWEST, HIGHEST = 1e-12, 100.0
"""No rate outside is tried; a spec takes none above, either."""
USUAL_LOW, USUAL_HIGH = 1e-6, 10.0
"""Between these a range test lets the rate rise where nobody says otherwise."""
SPAN_LEAST = 100.0
"""The last rate of a range test over its first, at least: over less no curve can be read."""
_ROUNDING = 1e-9
"""Relative: 1e-6 and 1e-4 are two decades apart, though not as binary fractions."""
STEP = 2.0 / 3.0
START = (0.0, -1.0, 1.0)
"""Steps from where a round begins."""
FIRST_SHARE = 1.0 / 8.0
SECOND_SHARE, SECOND_MOST = 1.0, 4


@dataclass(frozen=True, kw_only=True)
class RangeFault:
    """What is wrong with the rates that a range test was asked for."""

    field: str
    """`low` or `high`."""
    message: str
    hint: str


def range_fault(low: float | None, high: float | None, *, prefix: str = "") -> RangeFault | None:
    """What keeps a range test from going from `low` to `high`; None: nothing does. `prefix`: of the names in words."""
    for field, rate in (("low", low), ("high", high)):
        if rate is not None and not LOWEST <= rate <= HIGHEST:
            told = f"{prefix}{field} must be between {LOWEST:g} and {HIGHEST:g}."
            return RangeFault(field=field, message=told, hint=f"Usual are {USUAL_LOW:g} and {USUAL_HIGH:g}.")
    first, last = low or USUAL_LOW, high or USUAL_HIGH
    if last * (1.0 + _ROUNDING) >= SPAN_LEAST * first:
        return None
    lower, higher = last / SPAN_LEAST >= LOWEST, first * SPAN_LEAST <= HIGHEST
    ways = [f"{prefix}low {_shortened(last / SPAN_LEAST, ROUND_FLOOR)} or less"] if lower else []
    ways += [f"{prefix}high {_shortened(first * SPAN_LEAST, ROUND_CEILING)} or more"] if higher else []
    ways = ways or [f"{prefix}low {USUAL_LOW:g} and {prefix}high {USUAL_HIGH:g}"]
    return RangeFault(
        field="high" if higher and high is not None else "low",
        message=f"{prefix}low {first:g} must be at most a hundredth of {prefix}high {last:g}.",
        hint=f"Give {', or '.join(ways)}.",
    )


def _shortened(rate: float, rounding: str) -> str:
    """A rate in three digits, of which the last is rounded to the side that is told."""
    exact = Decimal(f"{rate:.12g}")
    return f"{float(exact.quantize(Decimal(1).scaleb(exact.adjusted() - 2), rounding=rounding)):g}"


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

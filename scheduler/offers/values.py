"""Values of a recommendation: what each way to run a job costs, and which one is offered.

All times are unix seconds, energies joules, memory bytes. Frozen, no clock, no I/O.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scheduler.estimation.estimate import worst
from scheduler.estimation.values import Allocation, Basis, Estimate, Interval, values_of
from scheduler.offers.bringing import NOTHING_BROUGHT, Bringing
from scheduler.offers.wish import Wish as Wish


class Hindrance(StrEnum):
    """Why a way to run a job is not offered."""

    MEMORY = "memory"
    """Its peak memory may exceed what a rank gets there."""
    DEADLINE = "deadline"
    """Its upper finish lies after the deadline, or none can be promised."""
    NOT_WISHED = "not_wished"
    """The person fixed another kind or number of devices."""
    QUOTA = "quota"
    """More devices than the project may hold."""
    NEVER_FREE = "never_free"
    """The queue gives no time at which so many devices are free."""


class Mark(StrEnum):
    """What a line of an offer stands out by."""

    RECOMMENDED = "recommended"
    """Least energy among those that keep the deadline."""
    FASTEST = "fastest"
    """Earliest upper finish among those that fit in memory and are allowed."""
    CHEAPEST = "cheapest"
    """Least energy among those that fit in memory and are allowed, whenever they finish."""


NOTABLE_SHARE = 0.05
"""Of the energy: less of it does not change what the figure rests on."""
LEAST_CHANCE = 0.05
"""A deadline that is less probable to be kept is not worth a try."""


@dataclass(frozen=True, kw_only=True)
class OfferLine:
    """One way to run the job and what it costs."""

    estimate: Estimate
    memory_limit_bytes: int
    start_s: float | None
    """When so many devices are expected to be free, or the scheduler would promise them; None: never."""
    finish_s: Interval | None
    """Start plus run time; its upper end the one that would be promised, where a finish is asked for."""
    hindrance: Hindrance | None = None
    why: str = ""
    """The hindrance in words; where there is none empty, or what else one has to know of it."""
    frontier: bool = False
    """No other way that could be taken costs less energy and finishes no later, or the other way round."""
    marks: tuple[Mark, ...] = ()
    before_s: float = 0.0
    """Of a range test that comes before the run: `start_s` is no earlier than its end ..."""
    before_j: float = 0.0
    """... and `energy_j` holds its energy, which `estimate` does not."""
    promisable: bool = True
    """See `scheduler.offers.candidates.Candidate`."""
    borrows: bool = False
    """See `scheduler.offers.candidates.Candidate`."""
    bringing: Bringing = NOTHING_BROUGHT
    """What brings its data, once it has its devices: `finish_s` holds it, the estimate of the run does not."""

    @property
    def energy_j(self) -> Interval:
        """Of the run, of the range test before it, and of devices that wait for its data."""
        run_j, before_j = self.estimate.energy_j, self.before_j
        if not before_j and not self.bringing.idle_w:
            return run_j
        return run_j.plus(Interval(low=before_j, mid=before_j, high=before_j)).plus(self.bringing.held_j)

    @property
    def energy_basis(self) -> Basis:
        """Of `energy_j`: the weaker one where devices draw notably much before the run."""
        run, idle = self.estimate.energy_basis, self.bringing
        return worst(run, idle.idle_basis) if idle.held_j.mid > NOTABLE_SHARE * self.energy_j.mid else run

    @property
    def feasible(self) -> bool:
        """It fits, is allowed, and keeps the deadline."""
        return self.hindrance is None

    @property
    def latest_s(self) -> float:
        """Upper end of the finish; infinite where it never starts."""
        return self.finish_s.high if self.finish_s else math.inf

    @property
    def allocation(self) -> Allocation:
        """Devices, mode and batch split."""
        return self.estimate.allocation

    def chance(self, deadline_s: float) -> float:
        """Probability that it ends by then, where it starts when its devices are expected to be free."""
        if self.start_s is None:
            return 0.0
        return self.estimate.run_s.plus(self.bringing.way.range_s).chance(deadline_s - self.start_s)


NEAR_S = 600.0
"""Moments that are nearer than this are told to ten seconds, others to the minute."""


def finish_told_s(earliest_s: float, now_s: float) -> float:
    """The earliest finish as people are told it, with time in which to set it as the deadline.

    A near one is told half a minute later, rounded up to ten seconds; others a minute later, up to the minute.
    """
    step_s, room_s = (10.0, 30.0) if earliest_s - now_s < NEAR_S else (60.0, 60.0)
    return step_s * math.ceil((earliest_s + room_s) / step_s)


def likeliest_of(lines: Iterable[OfferLine], deadline_s: float | None) -> OfferLine | None:
    """See `Offer.likeliest`."""
    late = [line for line in lines if line.hindrance is Hindrance.DEADLINE]
    if deadline_s is None or not late:
        return None
    best = max(late, key=lambda line: (line.chance(deadline_s), -line.energy_j.mid))
    return best if best.chance(deadline_s) >= LEAST_CHANCE else None


@dataclass(frozen=True, kw_only=True)
class Offer:
    """The answer to one wish: every way to run it, and the one that is recommended."""

    now_s: float
    deadline_s: float | None
    wish: Wish
    lines: tuple[OfferLine, ...]
    """Cheapest first among those that keep the deadline, then the others; a pipeline that nobody asked for by the upper
    end of its energy."""
    text: str
    """In one sentence: what is offered, or why nothing is."""
    earliest_finish_s: float | None
    """Earliest upper finish of a way that fits and is allowed."""
    changes: tuple[str, ...] = ()
    """What would have to change, where nothing is offered."""
    left: float = 1.0
    """Share of the run that is still to do: times and energies of the lines are of that."""

    @property
    def chosen(self) -> OfferLine | None:
        """The recommended line; None where no way keeps the deadline."""
        return self.marked(Mark.RECOMMENDED)

    @property
    def earliest_told_s(self) -> float | None:
        """`earliest_finish_s` as people are told it."""
        return None if self.earliest_finish_s is None else finish_told_s(self.earliest_finish_s, self.now_s)

    @property
    def likeliest(self) -> OfferLine | None:
        """Of ways that may be late, the one that most probably is not; None where there is none worth a try."""
        return likeliest_of(self.lines, self.deadline_s)

    def marked(self, mark: Mark) -> OfferLine | None:
        """The line with that mark."""
        return next((line for line in self.lines if mark in line.marks), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return values_of(self)

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> Offer:
        """Inverse of `to_dict`. Raises `ValueError`."""
        try:
            lines = tuple(_line_from(item) for item in body["lines"])
            rest = {**body, "wish": Wish(**body["wish"]), "lines": lines, "changes": tuple(body["changes"])}
            return Offer(**rest)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"not an offer: {error}") from error


def _interval(body: Mapping[str, Any] | None) -> Interval | None:
    return Interval(**body) if body is not None else None


def allocation_from(body: Mapping[str, Any]) -> Allocation:
    """An allocation from plain values. Raises `TypeError`, `KeyError`."""
    return Allocation(**{**body, "batch_split": tuple(body["batch_split"])})


def estimate_from(body: Mapping[str, Any]) -> Estimate:
    """Inverse of `Estimate.to_dict`. Raises `TypeError`, `KeyError`, `ValueError`."""
    intervals = {key: Interval(**body[key]) for key in ("step_s", "run_s", "peak_bytes", "energy_j")}
    bases = {key: Basis(body[key]) for key in ("time_basis", "memory_basis", "energy_basis")}
    return Estimate(**{**body, **intervals, **bases, "allocation": allocation_from(body["allocation"])})


def _line_from(body: Mapping[str, Any]) -> OfferLine:
    return OfferLine(
        **{
            **body,
            "estimate": estimate_from(body["estimate"]),
            "finish_s": _interval(body["finish_s"]),
            "hindrance": Hindrance(body["hindrance"]) if body["hindrance"] else None,
            "bringing": Bringing.from_dict(body.get("bringing") or {}),
            "marks": tuple(Mark(mark) for mark in body["marks"]),
        }
    )

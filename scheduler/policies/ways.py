"""`Ways`: the options of one job that are worth having, the time left on each, and in what order they are tried."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from scheduler.types import JobView, Option


@dataclass(frozen=True, kw_only=True)
class Rescale:
    """What a start, a pause or a change of devices costs a job."""

    fixed_s: float = 5.0
    """Checkpoint, launch, load. A cold start of a gang of two to its first step takes 2.5 s (benchmarks)."""
    per_doubling_s: float = 2.0
    """More for each doubling of the gang, and once more."""

    def cost_s(self, count: int) -> float:
        """Seconds lost by a job that goes on with `count` devices."""
        return _cost_s(self.fixed_s, self.per_doubling_s, count)


@lru_cache(maxsize=4096)
def _cost_s(fixed_s: float, per_doubling_s: float, count: int) -> float:
    return fixed_s + per_doubling_s * (math.log2(count) + 1.0)


_MOST_KNOWN = 65_536
_known: dict[int, tuple[tuple[Option, ...], tuple[Option, ...]]] = {}
"""Identity of options -> (themselves, what is worth having): to hash a thousand jobs' options takes longer."""


def worth_having(options: tuple[Option, ...]) -> tuple[Option, ...]:
    """Options that no other beats in energy and time, the thriftiest (and slowest) first; none without an estimate."""
    found = _known.get(id(options))
    if found is None or found[0] is not options:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        found = _known[id(options)] = (options, _worth_having(options))
    return found[1]


def _worth_having(options: tuple[Option, ...]) -> tuple[Option, ...]:
    best_rate, kept = 0.0, []
    for option in sorted((option for option in options if option.rate_per_s), key=_thrift):
        if option.rate_per_s > best_rate * 1.0001:
            kept.append(option)
            best_rate = option.rate_per_s
    return tuple(kept)


def watts(option: Option) -> float:
    """Power of an option; its devices where nobody knows the power."""
    return option.power_w or float(option.count)


def _thrift(option: Option) -> tuple[float, float]:
    return (watts(option) / option.rate_per_s, -option.rate_per_s)


def same(one: Option, other: Option) -> bool:
    """Whether a job needs no restart to go on by the other one."""
    return one.count == other.count and one.key == other.key and one.mode == other.mode


class Ways:
    """The options of one job at one moment, with the rescale overhead in the account."""

    __slots__ = ("_held", "_rescale", "_seconds", "job", "options", "share")

    def __init__(self, job: JobView, rescale: Rescale) -> None:
        """Time by the upper end of the estimate."""
        self.job = job
        self.options = worth_having(job.options)
        self._rescale = rescale
        running = job.running
        self._held = running.option if running is not None and not running.leaving else None
        self._seconds = {id(option): self._run_s(option) for option in self.options}
        self.share = math.inf
        """Part of the pool's devices times seconds that the job needs to keep its deadline: small jobs have little."""

    def run_s(self, option: Option) -> float:
        """Upper end of the time left, a change of devices included."""
        found = self._seconds.get(id(option))
        return self._run_s(option) if found is None else found

    def _run_s(self, option: Option) -> float:
        goes_on = self._held is not None and same(self._held, option)
        rescale = self._rescale
        cost_s = 0.0 if goes_on else _cost_s(rescale.fixed_s, rescale.per_doubling_s, option.count)
        return self.job.left_high_s(option) + cost_s

    def by_energy(self) -> list[Option]:
        """Those with the least modelled energy of the rest of the run first, the cost of changing over included."""
        seconds = self._seconds
        costs = [(watts(option) * seconds[id(option)], number) for number, option in enumerate(self.options)]
        return [self.options[number] for _, number in sorted(costs)]

    def next_faster(self, option: Option) -> Option | None:
        """The thriftiest option of the same devices that is faster."""
        rate_per_s, count, key = option.rate_per_s, option.count, option.key
        for other in self.options:
            if other.rate_per_s > rate_per_s and other.count > count and other.key == key:
                return other
        return None


def gain(slower: Option, faster: Option) -> float:
    """Marginal efficiency of more devices: 1 where twice the power gives twice the speed, 0 where it gives nothing."""
    more_power = watts(faster) / watts(slower) - 1.0
    if not slower.rate_per_s:
        # Without an estimate nobody can tell what more devices would bring.
        return 0.0
    more_speed = faster.rate_per_s / slower.rate_per_s - 1.0
    return more_speed / more_power if more_power > 0 else math.inf

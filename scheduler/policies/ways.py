"""`Ways`: the options of one job that are worth having, the time left on each, and in what order they are tried."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from scheduler.types import DeviceKey, JobView, Option


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


@lru_cache(maxsize=4096)
def _costs_s(fixed_s: float, per_doubling_s: float, counts: tuple[int, ...]) -> tuple[float, ...]:
    return tuple(_cost_s(fixed_s, per_doubling_s, count) for count in counts)


class _Worth(NamedTuple):
    """Options worth having, with what every decision asks of them."""

    options: tuple[Option, ...]
    counts: tuple[int, ...]
    runs_s: tuple[float, ...]
    watts: tuple[float, ...]
    starts_s: tuple[float, ...]
    """`Option.start_s` of each; empty where nothing is known of any."""
    slowdowns: tuple[float, ...]
    """Of each option that tells its own, else 0; empty where none does."""
    least_s: float
    """The least of `runs_s`."""
    numbers: dict[int, int]
    """Identity of an option -> its place among `options`."""
    faster: dict[int, tuple[Option, tuple[Option, float] | None]]
    """Identity of an option -> (itself, what `Ways.next_faster` says of it), once that was asked."""


_MOST_KNOWN = 65_536
_known: dict[int, tuple[tuple[Option, ...], _Worth]] = {}
"""Identity of options -> (themselves, what is worth having): to hash a thousand jobs' options takes longer."""


def _worth(options: tuple[Option, ...]) -> _Worth:
    found = _known.get(id(options))
    if found is None or found[0] is not options:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        kept = _worth_having(options)
        counts, runs_s = tuple([option.count for option in kept]), tuple([option.run_s for option in kept])
        slowdowns = tuple([option.slowdown for option in kept])
        starts_s = tuple([option.start_s for option in kept])
        starts_s = starts_s if any(starts_s) else ()
        own, least_s = slowdowns if any(slowdowns) else (), min(runs_s, default=math.inf)
        numbers = {id(option): number for number, option in enumerate(kept)}
        worth = _Worth(kept, counts, runs_s, tuple(map(watts, kept)), starts_s, own, least_s, numbers, {})
        found = _known[id(options)] = (options, worth)
    return found[1]


def _worth_having(options: tuple[Option, ...]) -> tuple[Option, ...]:
    """Options that no other beats in energy and upper time by a part of their devices, the thriftiest first; none
    without an estimate.

    Other devices, or more of them, beat nothing: they may be held, or above a quota, where these are free.
    """
    kept: list[Option] = []
    alike: dict[tuple[object, ...], list[tuple[float, int, int]]] = {}
    """Devices -> (upper time, devices, memory) of each option of them that is kept."""
    for option in sorted([option for option in options if option.rate_per_s], key=_thrift):
        # Who tells no range has that of its job, which is not known here.
        thriftier = alike.setdefault((option.kind, option.model_name, option.parts, bool(option.slowdown)), [])
        upper_s = option.run_s * (option.slowdown or 1.0)
        for other_s, count, size_bytes in thriftier:
            if upper_s >= other_s and option.count >= count and option.memory_bytes >= size_bytes:
                break
        else:
            thriftier.append((upper_s, option.count, option.memory_bytes))
            kept.append(option)
    return tuple(kept)


def watts(option: Option) -> float:
    """Power of an option; its devices where nobody knows the power."""
    return option.power_w or float(option.count)


def _thrift(option: Option) -> tuple[float, float]:
    return (watts(option) / option.rate_per_s, -option.rate_per_s)


def same(one: Option, other: Option) -> bool:
    """Whether a job needs no restart to go on by the other one."""
    return one.count == other.count and one.key == other.key and one.mode == other.mode


def start_s(job: JobView, option: Option, rescale: Rescale) -> float:
    """What a start on the option costs on top of what is left of the run, of which the first start is a part."""
    cost_s = rescale.cost_s(option.count)
    return max(cost_s, option.start_s) if job.has_begun else cost_s


def change_s(option: Option, rescale: Rescale) -> float:
    """The same once it has begun: what a change to the option costs."""
    return max(rescale.cost_s(option.count), option.start_s)


def anew_s(job: JobView, option: Option, rescale: Rescale) -> float:
    """Upper end of the time left of a job that starts on the option, the start included."""
    return job.left_high_s(option) + start_s(job, option, rescale)


def latest_start_s(by_s: float, run_s: float) -> float:
    """When it has to start to be done by then; who may end at any time may start at any time, however long it runs."""
    return by_s if math.isinf(by_s) else by_s - run_s


class Ways:
    """The options of one job at one moment, with the rescale overhead in the account."""

    __slots__ = (
        "_even", "_faster", "_held", "_held_at", "_numbers", "_rescale", "_watts",
        "job", "least_s", "options", "seconds", "share",
    )  # fmt: skip

    def __init__(self, job: JobView, rescale: Rescale) -> None:
        """Time by the upper end of the estimate."""
        self.job = job
        self._rescale = rescale
        worth = _worth(job.options)
        self.options, counts, runs_s, self._watts, starts_s, slowdowns, least_s, self._numbers, self._faster = worth
        running = job.running
        held = self._held = running.option if running is not None and not running.leaving else None
        costs_s: Sequence[float] = _costs_s(rescale.fixed_s, rescale.per_doubling_s, counts)
        if starts_s and job.has_begun:
            costs_s = [max(pair) for pair in zip(costs_s, starts_s, strict=True)]
        self._held_at: int | None = None
        """Number of the option that it holds; of several the first."""
        if held is not None:
            goes_on = [at for at, count in enumerate(counts) if count == held.count and same(held, self.options[at])]
            if goes_on:
                self._held_at = goes_on[0]
                costs_s = [0.0 if at in goes_on else cost_s for at, cost_s in enumerate(costs_s)]
        left, slowdown, bringing_s = job.work_left, job.slowdown, job.bringing.high_s
        self._even = (
            [left * run_s * slowdown + bringing_s + cost_s for run_s, cost_s in zip(runs_s, costs_s, strict=True)]
            if left
            else list(costs_s)
        )
        """`seconds` as if all options had the job's slowdown: energies are compared by their middles."""
        # As `run_s` has it, without a call for each where they are the same.
        self.seconds = self._even if not slowdowns else [self._seconds(option) for option in self.options]
        """`run_s` of each of `options`."""
        self.least_s = left * least_s if left else 0.0
        """Middle of what is left on the option that is fastest by its middle."""
        self.share = math.inf
        """Part of the pool's devices times seconds that the job needs to keep its deadline: small jobs have little."""

    def run_s(self, option: Option) -> float:
        """Upper end of the time left on any option, a change of devices included."""
        number = self._numbers.get(id(option))
        return self._seconds(option) if number is None else self.seconds[number]

    def _seconds(self, option: Option) -> float:
        goes_on = self._held is not None and same(self._held, option)
        return self.job.left_high_s(option) if goes_on else self.anew_s(option)

    def anew_s(self, option: Option) -> float:
        """The same where it has to start again, as it has once it was paused."""
        return anew_s(self.job, option, self._rescale)

    def within(self, left_s: float) -> tuple[Option, float]:
        """(option, its seconds): the thriftiest device time that is done in `left_s`, else what is done first."""
        for number, run_s in enumerate(self.seconds):
            if run_s <= left_s:
                return self.options[number], run_s
        run_s = min(self.seconds)
        return self.options[self.seconds.index(run_s)], run_s

    def by_end(self, left_s: float) -> list[Option]:
        """The options by when the job is done with each, the cost of changing over included; of each kind of device at
        most as many as it needs to be done in `left_s`."""
        by_end = [self.options[number] for number in sorted(range(len(self.seconds)), key=self.seconds.__getitem__)]
        in_time = [option for option, run_s in zip(self.options, self.seconds, strict=True) if run_s <= left_s]
        enough: dict[DeviceKey, int] = {}
        for option in (*in_time, *by_end):
            enough.setdefault(option.key, option.count)
        return [option for option in by_end if option.count <= enough[option.key]]

    def by_energy(self, stay: float, *, by_s: float = math.inf, now_s: float = 0.0) -> Iterator[tuple[Option, float]]:
        """(option, its seconds) of those that are done by then if they start now: those with the least modelled energy
        of the rest of the run first, the cost of changing over included.

        What it holds comes before them once the rest takes less than `stay` times what a start costs: a change saves
        hardly anything then, and a start that takes longer than usual could not be made up for any more.
        """
        options, seconds, power_w, even_s = self.options, self.seconds, self._watts, self._even
        order = [(power_w[at] * even_s[at], at) for at, left_s in enumerate(seconds) if by_s - left_s >= now_s]
        order.sort()
        held = self._held_at
        if held is not None and self._is_ending(held, stay):
            order.sort(key=lambda pair: pair[1] != held)
        for _, number in order:
            yield options[number], seconds[number]

    def _is_ending(self, number: int, stay: float) -> bool:
        """Whether the rest of the run is too short to change the option that it holds."""
        return self.seconds[number] < stay * change_s(self.options[number], self._rescale)

    def next_faster(self, option: Option) -> tuple[Option, float] | None:
        """(the thriftiest option of the same devices that is faster, its `gain`)."""
        known = self._faster.get(id(option))
        if known is None or known[0] is not option:
            known = self._faster[id(option)] = (option, self._next_faster(option))
        return known[1]

    def _next_faster(self, option: Option) -> tuple[Option, float] | None:
        for other in self.options:
            if other.rate_per_s > option.rate_per_s and other.count > option.count and other.key == option.key:
                return other, gain(option, other)
        return None


def gain(slower: Option, faster: Option) -> float:
    """Marginal efficiency of more devices: 1 where twice the power gives twice the speed, 0 where it gives nothing."""
    more_power = watts(faster) / watts(slower) - 1.0
    if not slower.rate_per_s:
        # Without an estimate nobody can tell what more devices would bring.
        return 0.0
    more_speed = faster.rate_per_s / slower.rate_per_s - 1.0
    return more_speed / more_power if more_power > 0 else math.inf

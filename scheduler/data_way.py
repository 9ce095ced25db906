"""How long the data of a job are on their way to a node that does not have them. Pure.

    seconds = bytes that are not there / bytes per second by which data came to this node before

It is a time with a range. A plan counts its upper end: what is promised holds wherever the job is put, over a line
that is slower than it was. Only the middle of a finish that is far off leaves it out, since data are sent ahead of a
job that waits (`scheduler.placing.foreseen`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from scheduler.estimation.values import Interval

LEAST_S = 1.0
"""What is there sooner does not count: starts vary by more."""
AHEAD_TIMES, AHEAD_LAG_S, AHEAD_MOST_S = 2.0, 60.0, 6 * 3600.0
"""What is sent ahead may take so many times as long as what a run fetches, since it gives way to that, and begins so
long after the job has come. Nothing is sent earlier before a start than the last one says."""
ASSUMED_SPREAD = 4.0
"""Upper end over middle of a way whose rate nobody has measured: a guess of 10 MiB/s stands for 2.5 to 40."""
FEW_SPREAD = 2.0
"""The same at least where fewer than `ENOUGH` fetches told the rate."""
ENOUGH = 4
"""Of so many fetches, and the next one, that which is farthest from the others is one of the former 4 times of 5."""


class Travel(NamedTuple):
    """Seconds until data are there; `low_s` to `high_s` holds them 8 times out of 10."""

    mid_s: float = 0.0
    high_s: float = 0.0

    @property
    def low_s(self) -> float:
        """As far below the middle as the upper end is above it, as a ratio: rates vary so."""
        return self.mid_s * self.mid_s / self.high_s if self.high_s > 0 else 0.0

    @property
    def range_s(self) -> Interval:
        """All three."""
        return Interval(low=min(self.low_s, self.mid_s), mid=self.mid_s, high=self.high_s)

    def after(self, seconds: float) -> Travel:
        """What is left of it after so long."""
        return Travel(max(0.0, self.mid_s - seconds), max(0.0, self.high_s - seconds))


HERE = Travel()
"""Of data that are there."""


def longest(ways: Iterable[Travel]) -> Travel:
    """Of several ways at once, by each end."""
    found = list(ways)
    return Travel(max((way.mid_s for way in found), default=0.0), max((way.high_s for way in found), default=0.0))


def spread_of(rates: Sequence[float]) -> float:
    """Upper end over middle of the time of the next fetch, by the rates of the last ones: as far as one of these was
    from the median of the others, up or down. One like them is no farther with a chance of about n / (n + 1)."""
    logs = [math.log(rate) for rate in rates]
    off = [abs(one - median(logs[:at] + logs[at + 1 :])) for at, one in enumerate(logs)] if len(logs) > 1 else []
    farthest = math.exp(max(off, default=0.0))
    if not rates:
        return ASSUMED_SPREAD
    return farthest if len(rates) >= ENOUGH else max(farthest, FEW_SPREAD)


@dataclass(frozen=True, kw_only=True, eq=False)
class DataWay:
    """The way of some data; one object for all jobs that use them."""

    size_bytes: int
    bytes_per_s: Mapping[str, float] = field(repr=False)
    """Node with a cache of its own -> how fast data come to it. All other nodes see the store's folder."""
    on: frozenset[str] = frozenset()
    """Such nodes that have them whole."""
    arrived: Mapping[str, float] = field(default_factory=dict)
    """Such nodes to which they are being sent -> share that is there."""
    spread: Mapping[str, float] = field(default_factory=dict, repr=False)
    """Node -> upper end over middle of the time that it takes, >= 1; of those that are missing 1."""

    def __post_init__(self) -> None:
        """Refuse what is no way."""
        if self.size_bytes < 0 or any(not 0 <= share <= 1 for share in self.arrived.values()):
            raise ValueError(f"not data on their way: {self.size_bytes} bytes, of which {self.arrived} arrived")

    def to_s(self, node: str) -> float:
        """Seconds until they are on the node, if they set out now."""
        rate = self.bytes_per_s.get(node)
        if rate is None or node in self.on:
            return 0.0
        seconds = self.size_bytes * (1.0 - self.arrived.get(node, 0.0)) / rate
        return seconds if seconds >= LEAST_S else 0.0

    def to(self, node: str) -> Travel:
        """The same with its range."""
        seconds = self.to_s(node)
        return Travel(seconds, seconds * self.spread.get(node, 1.0)) if seconds else HERE

    def to_all(self, nodes: Iterable[str]) -> Travel:
        """The same for the one of the nodes where it takes longest."""
        return longest(map(self.to, nodes))


def still_to_come(way: Travel, wait_s: float) -> Travel:
    """What is left of it at a start after `wait_s`, as far as can be told: all, or nothing where the wait is long
    enough to send the data ahead."""
    return HERE if min(wait_s, AHEAD_MOST_S) >= AHEAD_TIMES * way.mid_s + AHEAD_LAG_S else way

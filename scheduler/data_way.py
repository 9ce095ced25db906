"""How long the data of a job are on their way to a node that does not have them. Pure.

    seconds = bytes that are not there / bytes per second by which data came to this node before

A plan counts all of it: what is promised holds wherever the job is put. Only the middle of a finish that is far off
leaves it out, since data are sent ahead of a job that waits (`scheduler.placing.foreseen`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

LEAST_S = 1.0
"""What is there sooner does not count: starts vary by more."""
AHEAD_TIMES, AHEAD_LAG_S, AHEAD_MOST_S = 2.0, 60.0, 6 * 3600.0
"""What is sent ahead may take so many times as long as what a run fetches, since it gives way to that, and begins so
long after the job has come. Nothing is sent earlier before a start than the last one says."""


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

    def to_all_s(self, nodes: Iterable[str]) -> float:
        """The same for the one of the nodes where it takes longest."""
        return max(map(self.to_s, nodes), default=0.0)


def still_to_come_s(data_s: float, wait_s: float) -> float:
    """What is left of `data_s` at a start after `wait_s`, as far as can be told: all, or nothing where the wait is long
    enough to send them ahead."""
    return 0.0 if min(wait_s, AHEAD_MOST_S) >= AHEAD_TIMES * data_s + AHEAD_LAG_S else data_s

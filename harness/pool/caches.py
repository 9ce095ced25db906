"""What nodes that do not see the store have in their caches, and how fast it comes there, as they report it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from harness.pool.models import Node, NodeState
from harness.pool.reports import AGENTS
from scheduler.data_way import ASSUMED_SPREAD, spread_of

HIDDEN = ("datasets", "copying", "fetches")
"""Of a cache's report: they name, or size, datasets of projects that whoever looks at the pool may not see."""
RATE_MOST_BYTES_PER_S = 1e12
"""No link gives more: such a figure is none, nor is one below a byte per second."""


@dataclass(frozen=True, kw_only=True)
class NodeCache:
    """Of one node."""

    datasets: frozenset[str] = frozenset()
    """By the SHA-256 of what was uploaded; of very many those that were used last."""
    copying: str = ""
    """The one that is fetched now for a job that waits; empty: none is."""
    copying_share: float = 0.0
    """Of which so much is there."""
    bytes_per_s: float | None = None
    """By which its last datasets came: the median, which neither a portal that was away nor a quiet night moves; None:
    it has fetched none."""
    spread: float = ASSUMED_SPREAD
    """Upper end over middle of the time of its next fetch."""


def caches_get() -> dict[str, NodeCache]:
    """Nodes that are not down and have a cache, by name."""
    rows = Node.objects.exclude(state=NodeState.DOWN).filter(description__has_key="cache")
    return {name: _read(told) for name, told in rows.values_list("name", "description__cache")}


def _read(told: Any) -> NodeCache:
    """Whatever an agent says, nothing in it stops control."""
    told = told if isinstance(told, dict) else {}
    names, copying = told.get("datasets"), told.get("copying")
    copying = copying if isinstance(copying, dict) else {}
    share, rates = _number(copying.get("share")), _rates(told.get("fetches"))
    return NodeCache(
        datasets=frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset(),
        copying=str(copying.get("dataset", "")),
        copying_share=min(1.0, max(0.0, share)) if share is not None else 0.0,
        bytes_per_s=_rate(rates),
        spread=spread_of(rates),
    )


def _rates(fetches: Any) -> list[float]:
    """Bytes per second of each of the fetches that an agent tells of."""
    rates = []
    for row in fetches if isinstance(fetches, list) else ():
        if not isinstance(row, dict):
            continue
        size_bytes, seconds = _number(row.get("bytes")), _number(row.get("seconds"))
        if size_bytes and seconds and 1.0 <= size_bytes / seconds <= RATE_MOST_BYTES_PER_S:
            rates.append(size_bytes / seconds)
    return rates


def _rate(rates: Sequence[float]) -> float | None:
    return median(rates) if rates else None


def _number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) else None


def description_shown(description: Mapping[str, Any]) -> dict[str, Any]:
    """What everybody may read of what a node says of itself; of a copy that goes on its `copying_share` alone, of what
    it fetched the rate."""
    told = {key: value for key, value in description.items() if key != AGENTS}
    cache = told.get("cache")
    if not isinstance(cache, dict):
        return told
    shown = {key: value for key, value in cache.items() if key not in HIDDEN}
    copying = cache.get("copying")
    if isinstance(copying, dict) and isinstance(share := copying.get("share"), (int, float)):
        shown["copying_share"] = share
    if (rate := _rate(_rates(cache.get("fetches")))) is not None:
        shown["bytes_per_s"] = rate
    return {**told, "cache": shown}

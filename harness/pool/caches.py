"""What nodes that do not see the store have in their caches, as they report it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.pool.models import Node, NodeState

HIDDEN = ("datasets", "copying")
"""Of a cache's report: they name datasets of projects that whoever looks at the pool may not see."""


@dataclass(frozen=True, kw_only=True)
class NodeCache:
    """Of one node."""

    datasets: frozenset[str] = frozenset()
    """By the SHA-256 of what was uploaded; of very many those that were used last."""
    copying: str = ""
    """The one that is fetched now for a job that waits; empty: none is."""


def caches_get() -> dict[str, NodeCache]:
    """Nodes that are not down and have a cache, by name."""
    rows = Node.objects.exclude(state=NodeState.DOWN).filter(description__has_key="cache")
    return {name: _read(told) for name, told in rows.values_list("name", "description__cache")}


def _read(told: Any) -> NodeCache:
    """Whatever an agent says, nothing in it stops control."""
    told = told if isinstance(told, dict) else {}
    names, copying = told.get("datasets"), told.get("copying")
    return NodeCache(
        datasets=frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset(),
        copying=str(copying.get("dataset", "")) if isinstance(copying, dict) else "",
    )


def description_shown(description: Mapping[str, Any]) -> dict[str, Any]:
    """What everybody may read of what a node says of itself; of a copy that goes on its `copying_share` alone."""
    cache = description.get("cache")
    if not isinstance(cache, dict):
        return dict(description)
    shown = {key: value for key, value in cache.items() if key not in HIDDEN}
    copying = cache.get("copying")
    if isinstance(copying, dict) and isinstance(share := copying.get("share"), (int, float)):
        shown["copying_share"] = share
    return {**description, "cache": shown}

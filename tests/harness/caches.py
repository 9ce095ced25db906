"""Nodes with caches of their own, and data that take their time to get there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.utils import timezone

from harness.datasets.models import Dataset
from harness.storage.models import ContentSize

MIB = 1 << 20
LARGE_MIB = 6000


def large_make(dataset: Dataset) -> Dataset:
    """The dataset, as if it took `LARGE_MIB`."""
    fields = {"source_bytes": MIB, "packed_bytes": LARGE_MIB * MIB, "measured_at": timezone.now()}
    ContentSize.objects.update_or_create(sha256=dataset.sha256, defaults=fields)
    return dataset


def cached_node(
    node_make: Callable[..., Any],
    name: str,
    *,
    datasets: Sequence[str] = (),
    rates: Sequence[float] = (),
    copying: Mapping[str, Any] | None = None,
    **more: Any,
) -> Any:
    """A node with a cache; `rates` in MiB/s, one per fetch."""
    cache: dict[str, Any] = {"used_bytes": 1, "limit_bytes": 9, "datasets": list(datasets)}
    cache |= {"fetches": [{"bytes": 100 * MIB, "seconds": 100 / rate} for rate in rates]} if rates else {}
    cache |= {"copying": copying} if copying else {}
    return node_make(name, description={"cache": cache}, **more)

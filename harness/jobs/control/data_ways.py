"""How long the data of jobs are on their way to the nodes that do not have them, as the pure scheduler takes it.

A node that sees the store's folder has all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from harness.datasets.models import Dataset
from harness.jobs.models import Job
from harness.pool.caches import NodeCache
from harness.storage.use import content_sizes
from scheduler.data_way import HERE, LEAST_S, DataWay
from scheduler.estimation.values import Basis
from scheduler.types import JobView, PoolView
from worker.states import JobState

MEBIBYTE = 1 << 20


class DataWays:
    """Of one moment."""

    def __init__(self, caches: Mapping[str, NodeCache], assumed_mib_per_s: float, datasets: Collection[str]) -> None:
        """Reads the sizes of the datasets, named as in the store, at once. `assumed_mib_per_s`: of nodes that fetched
        nothing."""
        assumed = assumed_mib_per_s * MEBIBYTE
        self.caches = caches
        self._rates = {name: cache.bytes_per_s or assumed for name, cache in caches.items()}
        self._spread = {name: cache.spread for name, cache in caches.items()}
        self._sizes = packed_sizes(datasets) if caches else {}
        self._slowest = min(self._rates.values(), default=assumed)
        self._on: dict[str, list[str]] = defaultdict(list)
        self._coming: dict[str, dict[str, float]] = defaultdict(dict)
        for name, cache in caches.items():
            for dataset in cache.datasets:
                self._on[dataset].append(name)
            if cache.copying:
                self._coming[cache.copying][name] = cache.copying_share
        self._known: dict[str, DataWay | None] = {}

    def of(self, dataset: str) -> DataWay | None:
        """The same object for all jobs that use the dataset; None where it is everywhere, or there in no time."""
        if dataset not in self._known:
            self._known[dataset] = self._make(dataset) if dataset and self.caches else None
        return self._known[dataset]

    def holders(self, dataset: str) -> frozenset[str]:
        """Nodes with a cache that have it."""
        return frozenset(self._on.get(dataset, ()))

    def basis(self, node: str) -> Basis:
        """What the rate of a node with a cache rests on."""
        return Basis.MEASURED if self.caches[node].bytes_per_s else Basis.ASSUMED

    def _make(self, dataset: str) -> DataWay | None:
        if dataset not in self._sizes:
            self._sizes |= packed_sizes([dataset])
        size_bytes = self._sizes[dataset]
        if size_bytes < self._slowest * LEAST_S:
            return None
        arrived = self._coming.get(dataset, {})
        way = DataWay(
            size_bytes=size_bytes, bytes_per_s=self._rates, spread=self._spread, on=self.holders(dataset),
            arrived=arrived,
        )  # fmt: skip
        return way if any(map(way.to_s, self._rates)) else None


def packed_sizes(datasets: Collection[str]) -> dict[str, int]:
    """Bytes that a run fetches of each; of one that nobody has measured yet, those that were uploaded, if any."""
    sizes = {sha256: size.packed_bytes for sha256, size in content_sizes(datasets).items()}
    if missing := set(datasets).difference(sizes):
        rows = Dataset.objects.filter(sha256__in=missing).values_list("sha256", "source_bytes")
        sizes |= dict.fromkeys(missing, 0) | dict(rows)
    return sizes


def dataset_of(job: Job) -> str:
    """SHA-256 of what was uploaded, by which the job's data are named in the store."""
    return job.dataset_sha256 or job.dataset.sha256


def with_data(
    views: Sequence[JobView], jobs: Mapping[str, Job], pool: PoolView, ways: DataWays, now_s: float
) -> list[JobView]:
    """The jobs with the nodes that have their data, those that report so and all that see the store, and with the way
    of the data to the others."""
    store = frozenset(node.name for node in pool.nodes if node.name not in ways.caches)
    on: dict[str, frozenset[str]] = {}
    found = []
    for view in views:
        job = jobs[view.job_id]
        dataset = dataset_of(job)
        way = ways.of(dataset)
        if view.running is None:
            if dataset not in on:
                on[dataset] = store.union(ways.holders(dataset))
            view = replace(view, data_on=on[dataset], data=way)
        elif way is not None:
            # Its data set out when it was placed; it makes its first step once they have arrived.
            left = way.to_all(view.running.nodes).after(now_s - view.running.started_s)
            view = replace(view, data=way, bringing=left if job.state == JobState.PLACED else HERE)
        found.append(view)
    return found


NO_WAYS = DataWays({}, 1.0, ())
"""Where all nodes see the store."""

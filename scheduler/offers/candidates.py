"""Before anything is priced: the devices that can be had, and a way to run the job on them.

Memory is in bytes. Frozen, no clock, no I/O.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.estimation.values import Allocation
from scheduler.offers.bringing import NOTHING_BROUGHT, Bringing
from scheduler.offers.promisable import Promisable
from scheduler.rates.worth import NOTHING, RangeCost


@dataclass(frozen=True, kw_only=True)
class DeviceGroup:
    """All devices of one kind and model (and declared slowdown), as far as a job may use them."""

    kind: str
    model_name: str
    sizes: tuple[int, ...]
    """Devices of this group on each node that takes work."""
    nodes: tuple[str, ...] = ()
    """Names of these nodes; without them nobody knows which groups lie on one node."""
    memory_bytes: int
    """Per device: GPU memory, or a core's share of what jobs may take of the host's memory."""
    memory_floor_bytes: int = 0
    """A job gets at least this much of the memory of each host, however few cores it holds there (CPU)."""
    idle_bytes: int = 0
    """Of a process that has loaded torch and done nothing."""
    threads_per_rank: int = 1
    """CPU threads that feed one GPU."""
    quota: int | None = None
    """Devices the project may hold; None: no limit."""
    promised_quota: int | None = None
    """Devices the project may hold where more are lent to it while nobody else wants them; None: no such limit."""
    spans_nodes: bool = False
    """Whether one gang may take devices of several nodes."""
    asked_bytes: int = 0
    """Memory of the hosts that the person fixed for the whole gang, of each by its devices; 0: the devices' share."""
    hosts_bytes: tuple[int, ...] = ()
    """Memory of each of these nodes, as far as it is fixed; without it nobody asks for any."""

    @property
    def most(self) -> int:
        """Devices of the largest gang."""
        return sum(self.sizes) if self.spans_nodes else max(self.sizes, default=0)

    def most_on_node(self, count: int) -> int:
        """Of a gang of so many devices those on any one node, at most: the fullest nodes come first."""
        return min(count, max(self.sizes, default=count))

    def has_memory(self, count: int, *, alone: bool) -> bool:
        """Whether the nodes have what is fixed for a gang of so many devices, each its part. `alone`: on one node."""
        if not self.asked_bytes:
            return True
        nodes = list(zip(self.sizes, self.hosts_bytes, strict=False))
        if any(size >= count and host_bytes >= self.asked_bytes for size, host_bytes in nodes):
            return True
        most = sum(min(size, host_bytes * count // self.asked_bytes) for size, host_bytes in nodes)
        return self.spans_nodes and not alone and most >= count

    def rank_memory_bytes(self, count: int, ranks: int, *, together: int = 0) -> int:
        """What one rank may take above an idle process, in a gang of `count` devices.

        Memory of a host is for the ranks on that node alone: `together` devices at most, 0: as the scheduler places
        devices of this group.
        """
        if self.kind != "cpu":
            return max(0, self.memory_bytes - self.idle_bytes)
        here = together or self.most_on_node(count)
        floor_bytes = self.asked_bytes * here // count or self.memory_floor_bytes
        share_bytes = max(self.memory_bytes * here, floor_bytes) // min(ranks, here)
        return max(0, share_bytes - self.idle_bytes)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One way to run the job, before it is priced."""

    allocation: Allocation
    memory_limit_bytes: int
    """Per rank, above an idle process; of a mixture the least."""
    within_quota: bool = True
    borrows: bool = False
    """More than the project's quota, which others may take back: no finish is promised on it."""
    has_memory: bool = True
    """Whether the nodes have the memory that the person fixed for the gang."""
    part_limits_bytes: tuple[int, ...] = ()
    """Of a mixture: the same for the ranks on each model."""
    before: RangeCost = NOTHING
    """A range test that comes before the run."""
    over_nodes: tuple[str, ...] = ()
    """Nodes that it may lie on, where no single one has its devices; empty: one has, or nobody knows."""
    promised: Promisable | None = None
    """What the scheduler would promise, where it was asked."""
    promisable: bool = True
    """False: it was asked, and would promise nothing, not even a later finish."""
    bringing: Bringing = NOTHING_BROUGHT
    """What brings its data."""

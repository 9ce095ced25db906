"""`HostMemory`: what jobs asked for of each node's memory, as they leave, move and shrink within one decision."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.job_view import memory_by_node
from scheduler.placing.shelves import Shelf
from scheduler.types import JobView, Option

NOBODY: frozenset[str] = frozenset()


class HostMemory:
    """Of the nodes that take work. Nothing else is known of what a job has elsewhere."""

    def __init__(self, shelves: Mapping[str, Shelf]) -> None:
        """By name; they may still come."""
        self._shelves = shelves

    def comes(self, job: JobView) -> None:
        """A job that leaves gives its memory back."""
        for shelf, share in self._of(job):
            shelf.coming_bytes[job.job_id] = share

    def own(self, job: JobView, sign: int) -> None:
        """A job that moves can use its own memory again (1), or not after all (-1)."""
        for shelf, share in self._of(job):
            shelf.memory_free_bytes += sign * share

    def moves(self, job: JobView, option: Option, counts: Mapping[str, int]) -> None:
        """A job that moved to so many devices on each node: what it has no more where it was is only coming."""
        wanted = memory_by_node(option.memory_bytes, counts)
        for shelf, share in self._of(job):
            left = share - wanted.get(shelf.node.name, 0)
            if left > 0:
                shelf.memory_free_bytes -= left
                shelf.coming_bytes[job.job_id] = left

    def room_bytes(self, job: JobView, node: str) -> int:
        """What a running job could have on one of its nodes at once: what it has there, and what is free."""
        shelf, own = self._shelves.get(node), job.running.memory_on.get(node, 0) if job.running else 0
        return own + (max(0, shelf.memory_free_bytes) if shelf is not None else 0)

    def shrinks(self, job: JobView, option: Option, counts: Mapping[str, int]) -> None:
        """A job that shrinks to so many devices on each node takes its memory along; what it leaves comes with it."""
        wanted = memory_by_node(option.memory_bytes, counts)
        for shelf, share in self._of(job):
            more = wanted.get(shelf.node.name, 0) - share
            if more > 0:
                shelf.memory_free_bytes -= more
            elif more:
                shelf.coming_bytes[job.job_id] = -more

    def owners(self, shelf: Shelf, job: JobView, need_bytes: int) -> frozenset[str] | None:
        """Who must leave so that there is memory enough; None where that does not help."""
        missing = need_bytes - shelf.memory_free_bytes
        if not need_bytes or missing <= 0:
            return NOBODY
        owners = set()
        for owner, size in sorted(shelf.coming_bytes.items(), key=lambda item: (item[0] != job.job_id, -item[1], item)):
            owners.add(owner)
            missing -= size
            if missing <= 0:
                return frozenset(owners - {job.job_id})
        return None

    def _of(self, job: JobView) -> list[tuple[Shelf, int]]:
        shares = job.running.memory_on if job.running is not None else {}
        return [(self._shelves[name], share) for name, share in shares.items() if name in self._shelves]

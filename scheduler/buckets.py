"""`Buckets`: things by a count each has, kept in order while counts change."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import merge
from typing import Generic, TypeVar

T = TypeVar("T", str, int)


class Buckets(Generic[T]):
    """Things with a count above 0; those of one count are sorted."""

    def __init__(self) -> None:
        """Nothing is in."""
        self._counts: dict[T, int] = {}
        self._things: dict[int, list[T]] = {}

    def put(self, thing: T, count: int) -> int:
        """The thing has this count from now on; return by how much that is more."""
        before = self._counts.get(thing, 0)
        if count == before:
            return 0
        if before:
            things = self._things[before]
            del things[bisect_left(things, thing)]
            if not things:
                del self._things[before]
        if count:
            insort(self._things.setdefault(count, []), thing)
        self._counts[thing] = count
        return count - before

    def fewest_first(self, least: int) -> Iterator[T]:
        """Things with at least this count: those with the smallest first."""
        for count in sorted(count for count in self._things if count >= least):
            yield from self._things[count]

    def most_first(self) -> Iterator[tuple[int, T]]:
        """(count, thing) of all: those with the largest first."""
        for count in sorted(self._things, reverse=True):
            for thing in self._things[count]:
                yield count, thing

    def in_order(self, least: int) -> Iterator[T]:
        """Things with at least this count, whatever it is."""
        return merge(*(things for count, things in self._things.items() if count >= least))

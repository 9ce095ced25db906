"""`Buckets`: things by a count each has, kept in order while counts change."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import chain
from typing import Generic, TypeVar

T = TypeVar("T", str, int)


class Buckets(Generic[T]):
    """Things with a count above 0; those of one count are sorted."""

    def __init__(self, counted: Iterable[tuple[T, int]] = ()) -> None:
        """What is in from the beginning: (thing, count)."""
        self._counts: dict[T, int] = dict(counted)
        self._things: dict[int, list[T]] = {}
        for thing, count in self._counts.items():
            if count:
                self._things.setdefault(count, []).append(thing)
        for things in self._things.values():
            things.sort()
        self._present = sorted(self._things)
        """Counts that some thing has."""

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
                self._present.remove(before)
        if count in self._things:
            insort(self._things[count], thing)
        elif count:
            self._things[count] = [thing]
            insort(self._present, count)
        self._counts[thing] = count
        return count - before

    def fewest_first(self, least: int) -> Iterator[T]:
        """Things with at least this count: those with the smallest first."""
        present = self._present
        return chain.from_iterable(map(self._things.__getitem__, present[bisect_left(present, least) :]))

    def most_first(self) -> Iterator[tuple[int, T]]:
        """(count, thing) of all: those with the largest first."""
        for count in reversed(self._present):
            for thing in self._things[count]:
                yield count, thing

    def in_order(self, least: int) -> Iterator[T]:
        """Things with at least this count, whatever it is."""
        return merge(*(things for count, things in self._things.items() if count >= least))

"""`Buckets`: things by a count each has, kept in order while counts change."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator
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

    def fewest_first(self, least: int, liked: Collection[T] = ()) -> Iterator[T]:
        """Things with at least this count: those with the smallest first, of one count the `liked` ones."""
        counts = self._present[bisect_left(self._present, least) :]
        return chain.from_iterable(map(self._in_turn(liked), counts))

    def most_first(self, liked: Collection[T] = ()) -> Iterator[tuple[int, T]]:
        """(count, thing) of all: those with the largest first, of one count the `liked` ones."""
        in_turn = self._in_turn(liked)
        for count in reversed(self._present):
            for thing in in_turn(count):
                yield count, thing

    def _in_turn(self, liked: Collection[T]) -> Callable[[int], Iterable[T]]:
        """Gives the things of one count in the order in which they are tried."""
        if not liked:
            return self._things.__getitem__

        def things(count: int) -> Iterable[T]:
            here = self._things[count]
            return chain((one for one in here if one in liked), (one for one in here if one not in liked))

        return things

    def in_order(self, least: int) -> Iterator[T]:
        """Things with at least this count, whatever it is."""
        return merge(*(things for count, things in self._things.items() if count >= least))

"""Where a gang may lie on nodes of which each has some devices for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from scheduler.placing.lanes import Counts, Floats

Spread = list[tuple[int, int]]
"""(node, devices of it)."""


def spreads(
    counts: Counts,
    since_s: Floats,
    width: int,
    *,
    most: Callable[[int], int],
    losses: Callable[[int], int],
    racks: Sequence[str],
) -> Iterator[Spread]:
    """Ways for `width` devices, the best first: on one node, the fullest that will do; on the fewest of one rack; on
    the fewest of all. `counts`: what each node has, `since_s`: from when on, `most`: what it has memory for as well,
    `racks`: which one it stands in; empty: none that is known.

    Of nodes where the job was lost as often come first those that have their devices last, to leave others the rest.
    """
    if counts.sum() < width:
        return

    def worth(place: int, sign: int) -> tuple[float, ...]:
        return losses(place), -since_s[place], sign * counts[place]

    enough = sorted(np.flatnonzero(counts >= width).tolist(), key=partial(worth, sign=1))
    yield from [[(place, width)] for place in enough if most(place) >= width][:1]
    apart = sorted(np.flatnonzero(counts).tolist(), key=partial(worth, sign=-1))
    by_rack: dict[str, list[int]] = {}
    for place in apart:
        by_rack.setdefault(racks[place], []).append(place)
    near = [_filled(((place, most(place)) for place in by_rack[rack]), width) for rack in sorted(by_rack) if rack]
    yield from sorted(filter(None, near), key=len)
    yield from filter(None, [_filled(((place, most(place)) for place in apart), width)])


def _filled(free: Iterable[tuple[int, int]], width: int) -> Spread:
    """So many devices of the first nodes; nothing where there are not so many."""
    found = []
    for place, most in free:
        taken = min(most, width)
        if taken > 0:
            found.append((place, taken))
            width -= taken
        if not width:
            return found
    return []

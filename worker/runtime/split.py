"""The split of rows into training, validation and test parts, the same on every machine for the same seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PARTS = ("train", "val", "test")


def split_rows(
    count: int,
    validation: float,
    test: float,
    seed: int,
    labels: NDArray[np.int64] | None = None,
    given: Sequence[str | None] | None = None,
    *,
    copies: NDArray[np.int64] | None = None,
) -> dict[str, NDArray[np.int64]]:
    """Share rows 0..count-1 out to `train`, `val` and `test`; each part's rows are in ascending order.

    With `labels` (class numbers, [count]) every class is shared out evenly: rows are ordered by class, at random
    within a class, and then taken at even steps; the last row of a class stays in `train`. With `given` (one of
    `PARTS` per row) that split is kept, and a part that it lacks is taken out of its `train` rows. With `copies`
    (equal numbers for equal rows, [count]) rows that are alike go to the same part, whatever their classes.
    """
    generator = np.random.default_rng(seed)
    order = generator.permutation(count)
    offsets = generator.random(2)
    part = np.full(count, "train", dtype="<U5")
    if given is not None:
        part = np.array([name if name in PARTS else "train" for name in given], dtype="<U5")
    can_leave = np.ones(count, dtype=bool)
    if labels is not None:
        order = order[np.argsort(labels[order], kind="stable")]
        can_leave = np.bincount(labels)[labels] > 1
    free = np.flatnonzero(part == "train")
    first = free if copies is None else _first_alike(copies, free)
    order = order[np.isin(order, first)]
    left = 1.0
    for (name, share), offset in zip((("test", test), ("val", validation)), offsets, strict=True):
        if np.any(part == name):
            continue
        pool = order[(part[order] == "train") & can_leave[order]]
        taken = _even_steps(len(pool), share / left, float(offset))
        if labels is not None:
            _, start, group = np.unique(labels[pool], return_index=True, return_inverse=True)
            taken[start[np.bincount(group, weights=~taken) == 0]] = False  # classes of which none would be left
        part[pool[taken]] = name
        left -= share
    part[free] = part[first]
    return {name: np.flatnonzero(part == name) for name in PARTS}


def _first_alike(copies: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each of `rows` the first of them that it is alike."""
    _, first, group = np.unique(copies[rows], return_index=True, return_inverse=True)
    return np.asarray(rows[first[group]], dtype=np.int64)


def _even_steps(count: int, share: float, offset: float) -> NDArray[np.bool_]:
    """Mask [count], true at even steps for `share` of the places."""
    steps = np.floor(np.arange(count + 1) * share + offset)
    return np.asarray(np.diff(steps) > 0, dtype=np.bool_)

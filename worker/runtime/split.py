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
) -> dict[str, NDArray[np.int64]]:
    """Share rows 0..count-1 out to `train`, `val` and `test`; each part's rows are in ascending order.

    With `labels` (class numbers, [count]) every class is shared out evenly: rows are ordered by class, at random
    within a class, and then taken at even steps; a class with a single row stays in `train`. With `given` (one of
    `PARTS` per row) that split is kept, and a part that it lacks is taken out of its `train` rows.
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
    left = 1.0
    for (name, share), offset in zip((("test", test), ("val", validation)), offsets, strict=True):
        if np.any(part == name):
            continue
        pool = order[(part[order] == "train") & can_leave[order]]
        part[pool[_even_steps(len(pool), share / left, float(offset))]] = name
        left -= share
    return {name: np.flatnonzero(part == name) for name in PARTS}


def _even_steps(count: int, share: float, offset: float) -> NDArray[np.bool_]:
    """Mask [count], true at even steps for `share` of the places."""
    steps = np.floor(np.arange(count + 1) * share + offset)
    return np.asarray(np.diff(steps) > 0, dtype=np.bool_)

"""How many different values a column has, in constant memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

EXACT_UNIQUE = 20_000
"""Distinct values are counted exactly up to here."""
_HASH_SEED = 7
_HASH_SPAN = float(2**64)


class DistinctSketch:
    """Number of distinct values: exact up to `EXACT_UNIQUE`, then estimated from the smallest hashes (KMV).

    The estimate is (k - 1) / largest of the k smallest hashes on a 0-1 scale, relative error about 1/sqrt(k - 2)
    (Bar-Yossef et al. 2002).
    """

    def __init__(self) -> None:
        self._hashes: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        self._full = False

    def add(self, values: pl.Series) -> None:
        """Count these values."""
        hashes = values.hash(_HASH_SEED).to_numpy()
        if self._full:
            hashes = hashes[hashes < self._hashes[-1]]
        if not len(hashes):
            return
        merged = np.union1d(self._hashes, hashes)
        if len(merged) > EXACT_UNIQUE:
            self._full = True
            merged = merged[:EXACT_UNIQUE]
        self._hashes = merged

    @property
    def is_exact(self) -> bool:
        """Whether `count` is exact."""
        return not self._full

    @property
    def count(self) -> float:
        """Distinct values, or their estimate."""
        if not self._full:
            return float(len(self._hashes))
        return (EXACT_UNIQUE - 1) / (float(self._hashes[-1]) / _HASH_SPAN)

    @property
    def lower_bound(self) -> int:
        """Exact, or three standard errors below the estimate."""
        if not self._full:
            return len(self._hashes)
        return max(EXACT_UNIQUE, int(self.count * (1 - 3 / np.sqrt(EXACT_UNIQUE))))

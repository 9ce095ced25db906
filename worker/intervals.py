"""How far a share of some rows may lie from that of all: 95 % intervals. Pure and without torch, for pages as well."""

from __future__ import annotations

from collections.abc import Sequence

Z = 1.96
"""Of a 95 % interval of a normal distribution."""
Interval = tuple[float, float, float]
"""(value, low, high)."""


def student(freedom: int) -> float:
    """Of a 95 % interval of Student's t, within 1 %: its expansion around the normal distribution (Abramowitz and
    Stegun 1964, 26.7.5). `freedom`: degrees, 3 at least."""
    z, more = 1.959964, 1 / (4 * freedom)
    first, second = z**3 + z, (5 * z**5 + 16 * z**3 + 3 * z) / 6
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 6
    return z + first * more + second * more**2 + third * more**3


def share_interval(hits: float, rows: float) -> Interval:
    """A share and Wilson's 95 % interval of it."""
    share, square = hits / rows, Z * Z / rows
    middle = (share + square / 2) / (1 + square)
    half = Z / (1 + square) * (share * (1 - share) / rows + square / (4 * rows)) ** 0.5
    # of all or none the end is the share itself, which rounding would miss
    return share, 0.0 if hits == 0 else middle - half, 1.0 if hits == rows else middle + half


def mean_share_interval(groups: Sequence[tuple[float, float]]) -> Interval:
    """Mean over groups of the share of each, given as (hits, rows), and a 95 % interval of it.

    The spread of each share is taken as Agresti and Coull do it: one of all rows, or of none, has some, too.
    """
    count = len(groups)
    mean, variance = sum(hits / rows for hits, rows in groups) / count, 0.0
    for hits, rows in groups:
        more = rows + Z * Z
        share = (hits + Z * Z / 2) / more
        variance += share * (1 - share) / more
    half = Z * variance**0.5 / count
    return mean, max(0.0, mean - half), min(1.0, mean + half)

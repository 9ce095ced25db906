"""Units of length, mass and time behind numbers; those of one kind are converted into each other."""

from __future__ import annotations

import polars as pl

MEASURES = (
    {"mm": 1, "cm": 10, "m": 1_000, "km": 1_000_000},
    {"g": 1, "kg": 1_000, "t": 1_000_000},
    {"s": 1, "min": 60, "h": 3_600},
)
"""Kinds, and how many of the smallest of its kind each unit is; as in `worker.runtime.spelling`."""


def measures_alike(unit: str) -> dict[str, int]:
    """The kind of a unit, itself among it; empty for what is no measure."""
    return next((kind for kind in MEASURES if unit in kind), {})


def own_units(texts: pl.Series, unit: str) -> pl.Series:
    """The unit behind each number, where it is of the kind of `unit`; elsewhere `unit`."""
    found = texts.str.extract("([a-z]+)$")
    return found.set(~found.is_in(list(measures_alike(unit))).fill_null(False), unit)


def in_unit(found: pl.Series, own: pl.Series | None, unit: str) -> pl.Series:
    """Numbers with the units `own`, in `unit`; as they are where it is no measure."""
    kind = measures_alike(unit)
    if own is None or not kind:
        return found
    return found * own.replace_strict(kind, return_dtype=pl.Float64) / kind[unit]

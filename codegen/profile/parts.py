"""Which of the numbers that a date or a text gives are the same in every row: a program leaves them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from codegen.profile.types import NUMBER_PARTS, ColumnType

_MEASURES: dict[str, Callable[[pl.Series], pl.Series]] = {
    "days": lambda moments: moments,
    "year": lambda moments: moments.dt.year(),
    "month": lambda moments: moments.dt.month(),
    "weekday": lambda moments: moments.dt.weekday(),
    "hour": lambda moments: moments.dt.time(),
    "characters": lambda texts: texts.str.len_chars(),
    "words": lambda texts: texts.str.count_matches(r"\S+"),
}
"""As data.py of a program measures them."""


class Parts:
    """Of one column, fed in batches. A part that has been seen to differ is looked at no more."""

    def __init__(self, kind: ColumnType) -> None:
        parts = NUMBER_PARTS.get(kind, ())
        self._seen: dict[str, Any] = {part: None for part in parts if part}

    def add(self, present: pl.Series) -> None:
        """Look at the next values, none of which is missing."""
        for part, seen in tuple(self._seen.items()):
            values = _MEASURES[part](present)
            low, high = values.min(), values.max()
            if low != high or seen not in (None, low):
                del self._seen[part]
            else:
                self._seen[part] = low

    @property
    def same(self) -> tuple[str, ...]:
        """The same in all values so far."""
        return tuple(self._seen)

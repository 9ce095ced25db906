"""Running counts over the numbers and the words of a column, fed in batches. Constant memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from codegen.profile.types import EXAMPLES

MAX_WHOLE = float(2**53)
_VALUES = 100
_SHOWN = 80


@dataclass
class NumberTally:
    """What numbers a column holds."""

    count: int = 0
    whole: int = 0
    """Of these, whole ones that int64 holds exactly."""
    fractions: int = 0
    """Of these, those that are not whole."""
    infinite: int = 0
    infinite_rows: list[int] = field(default_factory=list)
    """1-based, the first few."""
    minimum: float = np.inf
    maximum: float = -np.inf

    def add(self, parsed: pl.Series, rows_before: int) -> None:
        """Count a batch that begins behind `rows_before` rows; null is no number."""
        self.count += len(parsed) - parsed.null_count()
        values = parsed.to_numpy()
        infinite = np.isinf(values)
        if infinite.any():
            self.infinite += int(infinite.sum())
            found = np.flatnonzero(infinite)[: EXAMPLES - len(self.infinite_rows)]
            self.infinite_rows.extend(rows_before + int(at) + 1 for at in found)
        values = values[np.isfinite(values)]
        if len(values):
            self.minimum = min(self.minimum, float(values.min()))
            self.maximum = max(self.maximum, float(values.max()))
            self.whole += int(((values == np.rint(values)) & (np.abs(values) < MAX_WHOLE)).sum())
            self.fractions += int((values != np.rint(values)).sum())

    def join(self, other: NumberTally) -> None:
        """Take in another tally of the same column."""
        self.count += other.count
        self.whole += other.whole
        self.fractions += other.fractions
        self.infinite += other.infinite
        self.infinite_rows = sorted([*self.infinite_rows, *other.infinite_rows])[:EXAMPLES]
        self.minimum = min(self.minimum, other.minimum)
        self.maximum = max(self.maximum, other.maximum)


@dataclass
class WordTally:
    """What words a column holds."""

    count: int = 0
    length_sum: int = 0
    space_sum: int = 0
    examples: list[tuple[int, str]] = field(default_factory=list)
    """(1-based row, value), the first few."""
    values: set[str] = field(default_factory=set)
    """Distinct words, up to 100."""

    def add(self, values: pl.Series, mask: pl.Series, rows_before: int) -> None:
        """Count the values of a batch where `mask` is true."""
        words = values.filter(mask)
        if not len(words):
            return
        self.count += len(words)
        self.length_sum += int(words.str.len_chars().sum())
        self.space_sum += int(words.str.count_matches(" ", literal=True).sum())
        for at in mask.arg_true().head(EXAMPLES - len(self.examples)):
            self.examples.append((rows_before + int(at) + 1, str(values[int(at)])[:_SHOWN]))
        if len(self.values) < _VALUES:
            self.values.update(words.unique().head(_VALUES).to_list())

    def join(self, other: WordTally) -> None:
        """Take in another tally of the same column."""
        self.count += other.count
        self.length_sum += other.length_sum
        self.space_sum += other.space_sum
        self.examples = sorted([*self.examples, *other.examples])[:EXAMPLES]
        self.values |= other.values

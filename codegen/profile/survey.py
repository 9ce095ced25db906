"""First reading of a column: what its values look like, before its type is decided. Constant memory."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import polars as pl

from codegen.profile.clocks import ClockTally
from codegen.profile.distinct import DistinctSketch
from codegen.profile.marks import Marks, marks_of
from codegen.profile.measures import in_unit, own_units
from codegen.profile.tallies import MAX_WHOLE, NumberTally, WordTally
from codegen.profile.types import EXAMPLES
from codegen.profile.values import (
    DATE_FORMATS,
    DOUBTFUL_MARKERS,
    POINTED_THOUSANDS,
    NumberStyle,
    dates,
    is_missing,
    numbers,
    unit_of,
    without_nan,
    without_unit,
)

SPELLED_STYLES = (NumberStyle.THOUSANDS, NumberStyle.DECIMAL_COMMA)
_DIGITS = r"^[+-]?\d+$"
_SPELLED = (pl.col("text").str.contains(",", literal=True) | pl.col("text").str.contains(POINTED_THOUSANDS)).fill_null(
    False
)
_DATE_TRIAL = 200
_DATE_SHARE = 0.9
_VOTING_SHARE = 0.95
"""A column with this share of numbers tells how numbers are spelled in its file."""
_MARKED_FROM = 1000
"""From here on whoever marks thousands marks them."""


class ColumnSurvey:
    """Counts over one column, fed in batches, then settled once: only all values tell what a comma means."""

    def __init__(self, name: str, *, decimal_comma: bool) -> None:
        self.name = name
        self.rows = 0
        self.present = 0
        """Values that are not missing."""
        self.numbers = NumberTally()
        self.words = WordTally()
        """Of present values that are no numbers."""
        self.styled = 0
        """Of the numbers, those with thousands marks or a decimal comma."""
        self.coded = 0
        """Of the numbers, those with leading zeros: codes."""
        self.unit = ""
        """A currency, per cent sign or measure that most of the first values have."""
        self.with_unit = 0
        """Values that have it, or another measure of its kind."""
        self.other_units: Counter[str] = Counter()
        """Measures of the kind of `unit` that are converted to it, and how often each occurs."""
        self.other_unit_rows: list[int] = []
        """1-based, the first few."""
        self.typed: pl.DataType | None = None
        """Type in the source, where it is not text."""
        self.style = NumberStyle.DECIMAL_COMMA if decimal_comma else NumberStyle.THOUSANDS
        """What `1,234` is taken for, where the other values leave that open."""
        self.points_in_doubt = False
        """Every number with a point may be thousands as well as a decimal, in a file that may have decimal commas."""
        self.commas_in_doubt = False
        """Every number with a comma was read as thousands and may have three decimals, too."""
        self._decimal_comma = decimal_comma
        self.markers: Counter[str] = Counter()
        """Missing markers that may be values of their own, and how often each occurs."""
        self.inexact = 0
        """Whole numbers too large to be kept exactly."""
        self.distinct = DistinctSketch()
        self._spelled = {style: (NumberTally(), WordTally()) for style in (*SPELLED_STYLES, NumberStyle.MIXED)}
        """What holds a comma or several points, read in each way."""
        self._pointed = {style: NumberTally() for style in SPELLED_STYLES}
        """What holds one point and may be thousands, if commas are decimal: later batches or columns may tell."""
        self.clocks = ClockTally()
        """What looks like a duration or a time of day."""
        self._made_fractions = 0
        """Numbers that are not whole only since another measure was converted: `45 min` among hours."""
        self._dates: dict[str, int] | None = None
        self._tried = 0
        """Words in which formats of dates were looked for."""

    @property
    def date_format(self) -> tuple[str, int]:
        """(the format that most words fit, how many)."""
        return max((self._dates or {}).items(), key=lambda item: item[1], default=("", 0))

    @property
    def dates_in_doubt(self) -> bool:
        """Whether every date may have the day first as well as the month."""
        fitting = self._dates or {}
        swapped = str.maketrans("dm", "md")
        return any(
            count and count == fitting.get(form.translate(swapped)) for form, count in fitting.items() if "d/" in form
        )

    @property
    def unique_share(self) -> float:
        """Distinct values per present value."""
        return min(1.0, self.distinct.count / max(1, self.present))

    def add(self, values: pl.Series, marks: Marks | None = None) -> None:
        """Survey the next batch, whose marks may have been looked for."""
        if values.dtype == pl.String:
            self._add_texts(values, marks)
        elif values.dtype in (pl.Float64, pl.Int64, pl.UInt64):
            self.typed = values.dtype
            kept = without_nan(values) if values.dtype == pl.Float64 else values
            self._count(kept.drop_nulls())
            self.numbers.add(kept.cast(pl.Float64), self.rows)
            if values.dtype != pl.Float64:
                self.inexact += int((values.abs() >= int(MAX_WHOLE)).sum())
        else:
            self.typed = values.dtype
            self._count(values.drop_nulls())
        self.rows += len(values)

    @property
    def decimal_commas(self) -> int:
        """For how many values more a comma is decimal than a mark of thousands; 0 where most values are no numbers."""
        counts = {style: self._spelled[style][0].count for style in SPELLED_STYLES}
        found = self.numbers.count + self._pointed[NumberStyle.THOUSANDS].count + max(counts.values())
        if found < _VOTING_SHARE * self.present:
            return 0
        return counts[NumberStyle.DECIMAL_COMMA] - counts[NumberStyle.THOUSANDS]

    @property
    def has_decimal_points(self) -> bool:
        """Whether the file spells decimals of this column with a point."""
        return self.typed is None and self._decimal_points > 0

    @property
    def _decimal_points(self) -> int:
        """Numbers with a fraction behind a point that cannot mark thousands."""
        return self.numbers.fractions - self._made_fractions

    @property
    def decimal_commas_sure(self) -> int:
        """Numbers with a comma that cannot mark thousands, or with points that do."""
        return self._spelled[NumberStyle.MIXED][0].count - self._spelled[NumberStyle.THOUSANDS][0].count

    def settle(self, *, comma_elsewhere: bool, point_elsewhere: bool = False) -> None:
        """All batches are there: read commas in the way that makes numbers of most values.

        `comma_elsewhere`: they are decimal in another column of the file, so points that are in doubt here are none.
        `point_elsewhere`: points are, so commas are none.
        """
        counts = {style: self._spelled[style][0].count for style in SPELLED_STYLES}
        usual = NumberStyle.DECIMAL_COMMA if comma_elsewhere else self.style
        self.style = max(counts, key=lambda style: (counts[style], style is usual))
        if self.style is NumberStyle.DECIMAL_COMMA and self._decimal_points > self.decimal_commas_sure:
            self.style = NumberStyle.MIXED
        found, left = self._spelled[self.style]
        self.styled = found.count
        self.points_in_doubt = (self._decimal_comma or comma_elsewhere) and self._may_all_be_thousands()
        self.commas_in_doubt = (
            self.style is NumberStyle.THOUSANDS
            and 0 < counts[NumberStyle.THOUSANDS] == counts[NumberStyle.DECIMAL_COMMA]
            and not (point_elsewhere or self.has_decimal_points)
        )
        if self.points_in_doubt and comma_elsewhere:
            self.styled = self._pointed[self.style].count
        self.numbers.join(found)
        pointed = self.styled and self.style is NumberStyle.DECIMAL_COMMA
        self.numbers.join(self._pointed[NumberStyle.DECIMAL_COMMA if pointed else NumberStyle.THOUSANDS])
        self.words.join(left)
        self._settle_clocks()

    def _settle_clocks(self) -> None:
        """Take clock readings for numbers of seconds where the column is one of these, else for words."""
        clocks = self.clocks
        if not clocks.fills(self.present, self.numbers.count):
            self.words.join(clocks.words)
            return
        two_figures = NumberStyle.CLOCK_MINUTES if clocks.minutes_first else NumberStyle.CLOCK_HOURS
        self.style = NumberStyle.CLOCK_FULL if clocks.long == clocks.words.count else two_figures
        self.styled = clocks.words.count
        self.numbers.join(clocks.by_minutes if clocks.minutes_first else clocks.by_hours)

    def _may_all_be_thousands(self) -> bool:
        """Whether points, but no commas, are here, and no value says what they are: `0.5`, `12.25` and `1234` would."""
        plain, pointed = self.numbers, self._pointed[NumberStyle.DECIMAL_COMMA]
        if self.styled or not pointed.count or plain.whole < plain.count:
            return False
        return plain.count == 0 or (plain.maximum < _MARKED_FROM and plain.minimum > -_MARKED_FROM)

    def _count(self, present: pl.Series) -> None:
        self.present += len(present)
        self.distinct.add(present)

    def _add_texts(self, values: pl.Series, marks: Marks | None) -> None:
        parsed = numbers(values)
        own: pl.Series | None = None
        if parsed.null_count():
            values = values.str.strip_chars()
            missing = is_missing(values)
            values, own = self._without_unit(values, missing)
            parsed = numbers(values)
            # 1 m and 1 km are two values
            self._count((values if own is None else values + own.set(own == self.unit, "")).filter(~missing))
            self._add_markers(values.filter(missing).drop_nulls())
            self._add_words(values, ~missing & parsed.is_null(), own)
        else:
            self._count(values)
        if marks is None or self.unit:
            marks = marks_of(values)
        self.coded += marks.coded
        self.numbers.add(self._without_pointed(parsed, marks.pointed, own), self.rows)
        if self.numbers.maximum >= MAX_WHOLE or self.numbers.minimum <= -MAX_WHOLE:
            large = values.filter((parsed.abs() >= MAX_WHOLE).fill_null(False))
            self.inexact += int(large.str.contains(_DIGITS).sum())

    def _without_unit(self, values: pl.Series, missing: pl.Series) -> tuple[pl.Series, pl.Series | None]:
        """(values without their units, which these are)."""
        if not self.present:
            self.unit = unit_of(values.filter(~missing))
        if not self.unit:
            return values, None
        bare, own = without_unit(values, self.unit), own_units(values, self.unit)
        self.with_unit += int((bare != values).sum())
        other = ((bare != values) & (own != self.unit)).fill_null(False)
        self.other_units.update(own.filter(other).to_list())
        first = other.arg_true().head(EXAMPLES - len(self.other_unit_rows))
        self.other_unit_rows.extend(self.rows + int(at) + 1 for at in first)
        return bare, own

    def _without_pointed(self, parsed: pl.Series, pointed: npt.NDArray[np.bool_], own: pl.Series | None) -> pl.Series:
        """`parsed` without what is thousands if commas are decimal, which is counted in both ways."""
        if not pointed.any():
            return self._in_unit(parsed, own)
        numbers_read = parsed.to_numpy()
        pointed = pointed & ~np.isnan(numbers_read)
        found = numbers_read[pointed]  # one point and three decimals: two points are no plain number
        of_found = None if own is None else own.filter(pl.Series(pointed))
        for style, read in ((NumberStyle.THOUSANDS, found), (NumberStyle.DECIMAL_COMMA, np.rint(found * 1000))):
            self._pointed[style].add(in_unit(pl.Series(read), of_found, self.unit), self.rows)
        return self._in_unit(parsed.set(pl.Series(pointed), None), own)

    def _in_unit(self, parsed: pl.Series, own: pl.Series | None) -> pl.Series:
        if own is None:
            return parsed
        before, after = NumberTally(), NumberTally()
        before.add(parsed, 0)
        after.add(found := in_unit(parsed, own, self.unit), 0)
        self._made_fractions += after.fractions - before.fractions
        return found

    def _add_markers(self, missing: pl.Series) -> None:
        if len(missing) and len(found := missing.filter(missing.is_in(DOUBTFUL_MARKERS))):
            counted = found.rename("value").value_counts(name="rows")
            self.markers.update(dict(counted.iter_rows()))

    def _add_words(self, values: pl.Series, mask: pl.Series, own: pl.Series | None) -> None:
        if not mask.any():
            return
        mask = mask & ~self.clocks.add(values, mask, self.rows)
        spelled = mask & values.to_frame("text").select_seq(_SPELLED).to_series()
        if spelled.any():
            self._add_spelled(values, spelled, own)
            mask = mask & ~spelled
        self.words.add(values, mask, self.rows)
        self._try_dates(values.filter(mask | spelled))

    def _add_spelled(self, values: pl.Series, mask: pl.Series, own: pl.Series | None) -> None:
        held = values.set(~mask, None)
        for style, (found, left) in self._spelled.items():
            parsed = in_unit(numbers(held, style), own, self.unit)
            found.add(parsed, self.rows)
            left.add(values, mask & parsed.is_null(), self.rows)

    def _try_dates(self, words: pl.Series) -> None:
        if self._dates is None:
            trial = words.head(_DATE_TRIAL)
            with_digits = int(trial.str.contains(r"\d").sum())
            tried = DATE_FORMATS if with_digits >= _DATE_SHARE * len(trial) else ()
            found = {pattern: 0 for pattern in tried if dates(trial, pattern).count() >= _DATE_SHARE * len(trial)}
            self._tried += len(trial)
            if not found and self._tried < _DATE_TRIAL:  # too few tell nothing: the next batch may
                return
            self._dates = found
        for pattern in list(self._dates):
            fitting = dates(words, pattern).count()
            if fitting < _DATE_SHARE * len(words) and len(words) >= _DATE_TRIAL:
                del self._dates[pattern]
            else:
                self._dates[pattern] += fitting

"""Durations and times of day, like `0:38:53`, `19:12` or `1 day, 2:03:04`, as seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from codegen.profile.tallies import NumberTally, WordTally

_CLOCK = (
    r"^(?:(?P<days>-?[0-9]{1,7}) days?,? )?(?P<sign>[+-]?)(?P<first>[0-9]{1,6}):(?P<second>[0-5][0-9])"
    r"(?::(?P<third>[0-5][0-9]))?(?P<fraction>[.,][0-9]+)?$"
)
_PADDED = r"^[+-]?0[0-9]+:"
_DAY_S, _HOUR_S, _MINUTE_S = 86_400.0, 3_600.0, 60.0
_COLUMN_SHARE = 0.5
"""A column with a smaller share of clock readings is one of words."""
_PLAIN_SHARE = 0.05
"""A column with more plain numbers than this share is one of words and numbers mixed."""


def clock_seconds(texts: pl.Series, *, minutes_first: bool) -> pl.Series:
    """Float64 of texts, null where one is no clock reading.

    Two figures are minutes and seconds where `minutes_first` or where they have a fraction, else hours and minutes.
    """
    return _seconds(_figures(texts), minutes_first=minutes_first).rename(texts.name)


def _figures(texts: pl.Series) -> pl.DataFrame:
    """What each text is made of, as numbers; null where it lacks them."""
    sign = pl.when(pl.col("sign") == "-").then(-1.0).otherwise(1.0).alias("sign")
    fraction = ("0" + pl.col("fraction").str.replace(",", ".", literal=True)).cast(pl.Float64)
    whole = pl.col("days", "first", "second", "third").cast(pl.Float64)
    return texts.str.extract_groups(_CLOCK).struct.unnest().select_seq(sign, whole, fraction.alias("fraction"))


def _seconds(figures: pl.DataFrame, *, minutes_first: bool) -> pl.Series:
    in_minutes = pl.col("third").is_null() & (pl.lit(minutes_first) | pl.col("fraction").is_not_null())
    first_s = pl.when(in_minutes).then(_MINUTE_S).otherwise(_HOUR_S) * pl.col("first")
    second_s = pl.when(in_minutes).then(1.0).otherwise(_MINUTE_S) * pl.col("second")
    clock_s = first_s + second_s + pl.col("third").fill_null(0.0) + pl.col("fraction").fill_null(0.0)
    return figures.select_seq(_DAY_S * pl.col("days").fill_null(0.0) + pl.col("sign") * clock_s).to_series()


@dataclass
class ClockTally:
    """The clock readings of a column: only all values tell what two figures mean, and whether they are its kind."""

    long: int = 0
    """With hours, minutes and seconds."""
    short: int = 0
    """Of two figures without a fraction: what they are is open."""
    padded: bool = False
    """Whether one of them has a zero in front, like `08:05`: so are times of day written, seldom minutes."""
    by_hours: NumberTally = field(default_factory=NumberTally)
    by_minutes: NumberTally = field(default_factory=NumberTally)
    words: WordTally = field(default_factory=WordTally)
    """The same values as words, for a column of another kind."""

    def add(self, texts: pl.Series, mask: pl.Series, rows_before: int) -> pl.Series:
        """Count a batch where `mask` is true; True where a text is a clock reading."""
        found = mask & texts.str.contains(_CLOCK).fill_null(False)
        if not found.any():
            return found
        figures = _figures(texts.set(~found, None))
        long, short = found & figures["third"].is_not_null(), figures["third"].is_null() & figures["fraction"].is_null()
        self.long += int(long.sum())
        self.short += int((found & short).sum())
        self.padded = self.padded or bool(texts.filter(found & short).str.contains(_PADDED).any())
        self.by_hours.add(_seconds(figures, minutes_first=False), rows_before)
        self.by_minutes.add(_seconds(figures, minutes_first=True), rows_before)
        self.words.add(texts, found, rows_before)
        return found

    def fills(self, present: int, plain: int) -> bool:
        """Whether these are what a column holds, beside `plain` numbers among `present` values."""
        return self.words.count > _COLUMN_SHARE * present and plain <= _PLAIN_SHARE * present

    @property
    def minutes_first(self) -> bool:
        """Whether two figures are minutes and seconds: beside `1:02:03` or `4:35.2`, `4:35` is, unless times of day
        with seconds are in the majority: there some program left out `:00`."""
        of_day = self.short < self.long and self.by_hours.maximum <= _DAY_S
        return self.short < self.words.count and not of_day

    @property
    def in_doubt(self) -> bool:
        """Whether two figures may be hours as well as minutes: both kinds are there, or none that is a time of day."""
        of_day = self.padded and self.by_hours.maximum <= _DAY_S
        return self.short > 0 and (self.long > 0 or not (self.minutes_first or of_day))

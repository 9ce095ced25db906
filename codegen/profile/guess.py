"""The type of each column, with its reason, and how its values become packed values."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from codegen.profile.measures import in_unit, measures_alike, own_units
from codegen.profile.naming import is_key_name
from codegen.profile.survey import ColumnSurvey
from codegen.profile.target_guess import are_classes
from codegen.profile.types import PLAIN_NUMBERS, ColumnType
from codegen.profile.values import (
    CLOCK_STYLES,
    DATE_FORMATS,
    NumberStyle,
    dates_told,
    finite,
    is_missing,
    numbers,
    within_reach,
    without_unit,
)
from worker.words import counted, share_words

MAX_WORD_SHARE = 0.05
"""A column of numbers may hold this share of words, which then count as missing."""
_MIN_IDENTIFIER_ROWS = 20
_IDENTIFIER_SHARE = 0.98
_TEXT_LENGTH = 40
_TEXT_SPACES = 3
_FEW_VALUES = 20
_MARK_SHARE = 0.01
"""A single value, or none, in fewer rows than this share tells too few rows apart."""
_CODE_WORDS = 2
"""So many different words among many different numbers stand for a missing one: "unknown", "not asked"."""


@dataclass(frozen=True, kw_only=True)
class ColumnPlan:
    """How one column is packed."""

    name: str
    type: ColumnType
    guessed_type: ColumnType
    reason: str
    whole: bool
    """Numbers are packed as int64."""
    style: NumberStyle | None
    """Further spelling of numbers besides the plain one."""
    unit: str
    """Currency, per cent sign or measure beside the numbers; other measures of its kind are converted to it."""
    date_format: str

    @property
    def packed(self) -> pl.DataType:
        """Type in the packed file."""
        if self.type is ColumnType.NUMERIC:
            return pl.Int64() if self.whole else pl.Float64()
        return pl.Datetime("us") if self.type is ColumnType.DATE else pl.String()

    @property
    def spelling(self) -> str:
        """As in `ColumnProfile`."""
        if self.type is ColumnType.NUMERIC:
            style = NumberStyle.THOUSANDS if self.style is NumberStyle.MIXED else self.style
            return ", ".join(filter(None, (style, self.unit)))
        return self.date_format if self.type is ColumnType.DATE else ""


def column_plan(survey: ColumnSurvey, override: ColumnType | None) -> ColumnPlan:
    """Decide from the survey; a person's override wins over the guess."""
    guessed, reason = guess_type(survey)
    return ColumnPlan(
        name=survey.name,
        type=override or guessed,
        guessed_type=guessed,
        reason=reason,
        whole=survey.numbers.count > 0 and survey.numbers.whole == survey.numbers.count,
        style=survey.style if survey.styled else None,
        unit=survey.unit,
        date_format=survey.date_format[0] or DATE_FORMATS[0],
    )


def guess_type(survey: ColumnSurvey) -> tuple[ColumnType, str]:
    """(type, reason in words)."""
    distinct = survey.distinct.lower_bound
    if not survey.present:
        return ColumnType.CONSTANT, "every value is missing"
    temporal = survey.typed is not None and survey.typed.is_temporal()
    if distinct == 1:
        if not temporal and _MARK_SHARE <= survey.present / survey.rows <= 1 - _MARK_SHARE:
            return ColumnType.CATEGORY, "one value or none, like a checkbox: which rows have it may matter"
        return ColumnType.CONSTANT, "all present values are the same"
    if temporal:
        return ColumnType.DATE, "a date or time in the file"
    share = survey.numbers.count / survey.present
    amounts = share >= 1 - MAX_WORD_SHARE or _is_coded_missing(survey, share)
    if amounts and _is_of_one_unit(survey) and not _is_coded(survey) and not _is_ordinal_text(survey):
        return _guess_few_spelled(survey, distinct) or _guess_numeric(survey, share)
    return _guess_words(survey, distinct)


def convert(values: pl.Series, plan: ColumnPlan) -> pl.Series:
    """The packed values of a batch: missing markers, infinities and words among numbers become null."""
    if plan.type is ColumnType.NUMERIC:
        packed = _numeric(values, plan)
    elif plan.type is ColumnType.DATE:
        temporal = values.dtype.is_temporal()
        packed = within_reach(values) if temporal else dates_told(_stripped(values, plan), plan.date_format)
    else:
        packed = _stripped(values, plan)
    return packed.cast(plan.packed, strict=False).rename(plan.name)


def _stripped(values: pl.Series, plan: ColumnPlan) -> pl.Series:
    if values.dtype == pl.Float64:
        values = values.fill_nan(None)
        values = values.cast(pl.Int64, strict=False) if plan.whole else values
    texts = values.cast(pl.String).str.strip_chars()
    return texts.set(is_missing(texts), None)


def _numeric(values: pl.Series, plan: ColumnPlan) -> pl.Series:
    if values.dtype == pl.Int64:
        return values
    if values.dtype.is_temporal():  # no numbers, as are dates in texts; not microseconds
        found = pl.Series(values.name, [None] * len(values), dtype=pl.Float64)
    elif values.dtype != pl.String:
        found = values.cast(pl.Float64, strict=False)
    else:
        found = numbers(values)
        own: pl.Series | None = None
        if found.null_count():
            values = values.str.strip_chars()
            if plan.unit:
                own = own_units(values, plan.unit)
                values = without_unit(values, plan.unit)
            found = numbers(values)
        if plan.style:
            found = numbers(values, plan.style).fill_null(found)  # beside decimal commas 1.234 is a thousand
        found = in_unit(found, own, plan.unit)
    return finite(found)


def _is_coded(survey: ColumnSurvey) -> bool:
    return survey.coded > 0 and survey.numbers.whole == survey.numbers.count


def _is_of_one_unit(survey: ColumnSurvey) -> bool:
    """Whether all have a unit or none: `50 %` beside many a `0.5` is no column of amounts. Measures may lack."""
    return (
        not survey.unit
        or bool(measures_alike(survey.unit))
        or survey.with_unit >= (1 - MAX_WORD_SHARE) * survey.numbers.count
    )


def _is_coded_missing(survey: ColumnSurvey, share: float) -> bool:
    """Mostly numbers, of which there are many different ones, and beside them one or two words again and again."""
    return share >= 0.5 and len(survey.words.values) <= _CODE_WORDS and survey.distinct.lower_bound > _FEW_VALUES


def _is_ordinal_text(survey: ColumnSurvey) -> bool:
    """`1, 2, 3, 4+`: words that repeat among few values are categories, not mistakes."""
    few = survey.distinct.lower_bound <= min(_FEW_VALUES, survey.present // 10)
    return survey.words.count > 0 and few and survey.words.count > len(survey.words.values)


def _guess_few_spelled(survey: ColumnSurvey, distinct: int) -> tuple[ColumnType, str] | None:
    """Clock readings or measures, no plain number among them, that would be classes: `08:00` says more than 28800."""
    clocks = survey.style in CLOCK_STYLES
    spelled = survey.styled if clocks else survey.with_unit if measures_alike(survey.unit) else 0
    whole = survey.numbers.whole == survey.numbers.count
    if spelled < survey.numbers.count or not are_classes(distinct, survey.rows, whole=whole):
        return None
    what = "durations or times of day" if clocks else f"numbers with {survey.unit}"
    return ColumnType.CATEGORY, f"only {distinct} different {what}, kept as they are written"


def _guess_numeric(survey: ColumnSurvey, share: float) -> tuple[ColumnType, str]:
    whole = survey.numbers.whole == survey.numbers.count and not survey.words.count
    clocks = survey.style in CLOCK_STYLES
    if (
        whole
        and not clocks
        and (not survey.unit or measures_alike(survey.unit))
        and survey.present >= _MIN_IDENTIFIER_ROWS
        and survey.unique_share >= _IDENTIFIER_SHARE
    ):
        if (
            survey.numbers.maximum - survey.numbers.minimum == survey.present - 1
            and survey.distinct.count >= survey.present * 0.97
        ):
            return ColumnType.IDENTIFIER, "whole numbers that count the rows, each once"
        if is_key_name(survey.name):
            return ColumnType.IDENTIFIER, "nearly every value is different, and it is named like a key"
    unit = f" with {survey.unit}" if survey.unit else ""
    if share == 1:
        why = "every present value is a duration or a time of day" if clocks else PLAIN_NUMBERS
        return ColumnType.NUMERIC, f"{why}{unit}"
    kind = "durations or times of day" if clocks else "numbers"
    told = f"{share_words(share)} of the present values are {kind}{unit}; the words count as missing"
    return ColumnType.NUMERIC, told


def _guess_words(survey: ColumnSurvey, distinct: int) -> tuple[ColumnType, str]:
    fitting = survey.date_format[1]
    if (
        survey.words.count
        and fitting >= 0.95 * survey.words.count
        and survey.numbers.count <= MAX_WORD_SHARE * survey.present
    ):
        return ColumnType.DATE, f"{share_words(fitting / survey.present, 0)} of the present values are dates"
    length = survey.words.length_sum / max(1, survey.words.count)
    spaces = survey.words.space_sum / max(1, survey.words.count)
    if length > _TEXT_LENGTH or spaces >= _TEXT_SPACES:
        if survey.unique_share > 0.2 or distinct > 1000:
            return ColumnType.TEXT, f"long values ({length:.0f} characters on average), mostly different"
    elif survey.unique_share >= _IDENTIFIER_SHARE and survey.present >= _MIN_IDENTIFIER_ROWS:
        return ColumnType.IDENTIFIER, "nearly every value is different"
    elif spaces >= 1 and survey.unique_share > 0.5 and distinct > 100:
        return ColumnType.TEXT, "several words, mostly different values"
    if _is_coded(survey) and not survey.words.count:
        return ColumnType.CATEGORY, f"numbers with leading zeros are codes; {counted(distinct, 'different one')}"
    if survey.numbers.count:
        return ColumnType.CATEGORY, f"words and numbers mixed; {counted(distinct, 'different value')}"
    return ColumnType.CATEGORY, f"words; {counted(distinct, 'different value')}"

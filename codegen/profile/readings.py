"""Where values may have been read otherwise than they were meant, or leave nothing to learn from, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from codegen.profile.guess import ColumnPlan
from codegen.profile.measures import measures_alike
from codegen.profile.survey import ColumnSurvey
from codegen.profile.target import CLASSIFICATION, REGRESSION, task_hint
from codegen.profile.target_guess import guess_task
from codegen.profile.types import ColumnProfile, ColumnType, Finding, Severity
from codegen.profile.values import CLOCK_STYLES, NumberStyle
from worker.words import counted

_PERCENT = "%"
_SPELLED = re.compile(
    r"[+\-\u2212\u2013]?\s?[$€£¥₹]?\s?[+\-\u2212\u2013]?"
    r"(\d+|[1-9]\d{0,2}([ .,'\u2019\u00a0\u202f]\d{3})+)([.,]\d+)?\s?[%$€£¥₹]?"
)
"""A number as people write it: thousands marks, a decimal comma, a currency, per cent, a sign that is no hyphen."""
_AMOUNT = r"[+\-]?[$€£¥₹]?\s?\d[\d.,]*\s?(%|[$€£¥₹]|[a-z]{1,3})?"
_SEVERAL = re.compile(rf"{_AMOUNT}(\s?([-/x\u2013]|to|by)\s?{_AMOUNT})+")
"""Amounts with a dash, a slash or a little word between them: `$5/$10`, `10-20 %`, `3 x 4 cm`."""
_SPELLED_SHARE = 0.9
_SHOWN = 10
_UNUSED = (ColumnType.CONSTANT, ColumnType.IDENTIFIER)
_OF_WORDS = (ColumnType.CATEGORY, ColumnType.IDENTIFIER, ColumnType.TEXT)


def reading_findings(column: ColumnProfile, survey: ColumnSurvey, plan: ColumnPlan, is_target: bool) -> list[Finding]:
    """All about how the values of one column were read."""
    found = []
    if plan.style in CLOCK_STYLES and column.type is ColumnType.NUMERIC:
        found.append(_clocks(column, survey))
    elif survey.points_in_doubt and column.type is ColumnType.NUMERIC:
        found.append(_points(column, thousands=plan.style is not None))
    elif survey.commas_in_doubt and column.type is ColumnType.NUMERIC:
        found.append(_commas(column))
    elif plan.style is NumberStyle.MIXED and survey.decimal_commas_sure and column.type is ColumnType.NUMERIC:
        found.append(_mixed(column, survey))
    elif plan.style is not None and column.type is ColumnType.NUMERIC:
        style = NumberStyle.THOUSANDS if plan.style is NumberStyle.MIXED else plan.style
        found.append(
            Finding(
                code="number_style",
                severity=Severity.INFO,
                message=f"{counted(survey.styled, 'number')} of '{column.name}' "
                f"{'is' if survey.styled == 1 else 'are'} written with {style.value}.",
                meaning="They were understood; check the range in the profile.",
                column=column.name,
            )
        )
    if survey.unit and column.type is ColumnType.NUMERIC:
        found.append(_unit(column, survey))
    if column.type is ColumnType.DATE and survey.dates_in_doubt:
        found.append(_date_order(column))
    if column.type is ColumnType.DATE and "%y" in column.spelling:
        found.append(_short_years(column))
    found += [*_spelled(column, survey), *_markers(column, survey, is_target), *_inexact(column, survey)]
    return [*found, *(_as_classes(column, survey, plan) if is_target else ())]


def _points(column: ColumnProfile, *, thousands: bool) -> Finding:
    return Finding(
        code="points_in_doubt",
        severity=Severity.INFO if thousands else Severity.WARNING,
        message=f"Numbers of '{column.name}' like 1.234 may be thousands or have three decimals; they were read "
        + ("as thousands, since other columns have decimal commas." if thousands else "with three decimals."),
        meaning="No value in the column settles it. If it is the other way round, write them plainly, like 1234 or "
        "1.2340, and upload again.",
        column=column.name,
    )


def _commas(column: ColumnProfile) -> Finding:
    return Finding(
        code="points_in_doubt",
        severity=Severity.WARNING,
        message=f"Numbers of '{column.name}' like 1,234 may be thousands or have three decimals; they were read as "
        "thousands.",
        meaning="No value in the file settles it. If it is the other way round, write them plainly, like 1.234, and "
        "upload again.",
        column=column.name,
    )


def _mixed(column: ColumnProfile, survey: ColumnSurvey) -> Finding:
    count = survey.decimal_commas_sure
    return Finding(
        code="number_style",
        severity=Severity.WARNING,
        message=f"{counted(count, 'number')} of '{column.name}' {'is' if count == 1 else 'are'} written with a decimal "
        "comma, and more with a decimal point.",
        meaning="Each was read as it is written: 2,5 as 2.5, 1.234 with three decimals, 1,234 as a thousand and more. "
        "Check the range in the profile; if that is wrong, write all in one way and upload again.",
        column=column.name,
    )


def _clocks(column: ColumnProfile, survey: ColumnSurvey) -> Finding:
    clocks, plain = survey.clocks, survey.numbers.count - survey.styled
    two = "minutes and seconds" if clocks.minutes_first else "hours and minutes"
    doubt = f" Those of two figures were read as {two}." if clocks.short else ""
    alike = f" {counted(plain, 'plain number was', 'plain numbers were')} read as seconds." if plain else ""
    return Finding(
        code="clock_times",
        severity=Severity.WARNING if clocks.in_doubt or plain else Severity.INFO,
        message=f"{counted(survey.styled, 'value')} of '{column.name}' "
        f"{'is a duration or a time' if survey.styled == 1 else 'are durations or times'} of day, such as "
        f"{clocks.words.examples[0][1]}; they were read as seconds.{doubt}{alike}",
        meaning="Check the range in the profile. Rows to predict for may be written like these, or be in seconds. As "
        "classes, or for a few fixed times, set the type to category."
        + (" If two figures mean something else, write all three, like 0:04:35, and upload again." if doubt else ""),
        column=column.name,
    )


def _unit(column: ColumnProfile, survey: ColumnSurvey) -> Finding:
    bare = survey.numbers.count - survey.with_unit
    read = ": 12 % is 12, not 0.12" if survey.unit == _PERCENT else ", which was taken off"
    alike = f" {counted(bare, 'number without it was', 'numbers without it were')} read the same way." if bare else ""
    others = survey.other_units
    converted = " and ".join(f"{count:,} with {unit}" for unit, count in others.most_common())
    converted = f" {converted} {'was' if others.total() == 1 else 'were'} converted to {survey.unit}." if others else ""
    kind = [unit for unit in measures_alike(survey.unit) if unit != survey.unit]
    also = f", or {', '.join(kind[:-1])} or {kind[-1]}" if kind else ""
    return Finding(
        code="number_unit",
        severity=Severity.WARNING if bare or others else Severity.INFO,
        message=f"Numbers of '{column.name}' are written with {survey.unit}{read}.{converted}{alike}",
        meaning=f"Check the range in the profile. Rows to predict for may have it or not{also}; values with another "
        "unit do not count as numbers.",
        column=column.name,
        rows=tuple(survey.other_unit_rows),
    )


def _date_order(column: ColumnProfile) -> Finding:
    return Finding(
        code="date_order",
        severity=Severity.WARNING,
        message=f"Dates of '{column.name}' may have the day or the month first; they were read with the "
        f"{'day' if column.spelling.startswith('%d') else 'month'} first.",
        meaning="No value settles it. If it is the other way round, write them like 2020-01-31 and upload again.",
        column=column.name,
    )


def _short_years(column: ColumnProfile) -> Finding:
    return Finding(
        code="short_years",
        severity=Severity.INFO,
        message=f"The years of '{column.name}' have two digits; they were read as 1969 to 2068.",
        meaning="If some are older, such as dates of birth, write them with four digits and upload again.",
        column=column.name,
    )


def _spelled(column: ColumnProfile, survey: ColumnSurvey) -> list[Finding]:
    """Words that a person would read as numbers."""
    words = survey.words.values
    without = survey.present - survey.with_unit
    if survey.unit and without and column.guessed_type in _OF_WORDS and column.type is not ColumnType.NUMERIC:
        return [_units_mixed(column, survey)]
    if column.type is ColumnType.DATE:
        return []
    spelled = sorted(word for word in words if _SPELLED.fullmatch(word))
    if not spelled or len(spelled) < _SPELLED_SHARE * len(words):
        return []
    return [
        Finding(
            code="numbers_as_words",
            severity=Severity.WARNING,
            message=f"'{column.name}' seems to hold numbers, but they were read as words, such as '{spelled[0]}'.",
            meaning="Their magnitude is lost. Write them plainly, like 1234.5 or 1234,5: no spaces, all in one "
            "currency, and all in one way.",
            column=column.name,
            rows=tuple(row for row, _ in survey.words.examples),
        )
    ]


def _units_mixed(column: ColumnProfile, survey: ColumnSurvey) -> Finding:
    return Finding(
        code="numbers_as_words",
        severity=Severity.WARNING,
        message=f"'{column.name}' holds numbers with {survey.unit} beside numbers or words without; all were read as "
        "words.",
        meaning="Their magnitude is lost. Write all in one way, or set the column's type to numeric if the others "
        "mean the same unit, or are missing values.",
        column=column.name,
    )


def _markers(column: ColumnProfile, survey: ColumnSurvey, is_target: bool) -> list[Finding]:
    """Words that may be values of their own: a country NA, a class None."""
    if not survey.markers or column.type not in (ColumnType.CATEGORY, ColumnType.TEXT, ColumnType.CONSTANT):
        return []
    shown = ", ".join(f"'{text}' ({count:,})" for text, count in survey.markers.most_common())
    return [
        Finding(
            code="missing_markers",
            severity=Severity.WARNING if is_target else Severity.INFO,
            message=f"Values of '{column.name}' were read as missing: {shown}.",
            meaning="If that is a value of its own (a country, a class), write another word for it and upload again.",
            column=column.name,
        )
    ]


def _inexact(column: ColumnProfile, survey: ColumnSurvey) -> list[Finding]:
    if not survey.inexact or column.type not in (ColumnType.NUMERIC, ColumnType.CONSTANT):
        return []
    return [
        Finding(
            code="inexact_numbers",
            severity=Severity.WARNING,
            message=f"'{column.name}' holds {counted(survey.inexact, 'whole number')} beyond 9,007,199,254,740,992: "
            "such are rounded, and neighbours become equal.",
            meaning="For amounts that is harmless. If they are keys or codes, set the column's type to category or "
            "identifier.",
            column=column.name,
        )
    ]


def _as_classes(column: ColumnProfile, survey: ColumnSurvey, plan: ColumnPlan) -> list[Finding]:
    """Why amounts that are to be predicted are learned as classes: `$5` and `$10`, `1 km` to `5 km`, `10-20 %`."""
    if guess_task(column, survey.rows)[0] != CLASSIFICATION:
        return []
    if column.type is ColumnType.CATEGORY and (several := _several_numbers(survey)):
        message = f"Values of '{column.name}' hold several numbers each, such as '{several}': they are read as classes."
        meaning = "Each spelling is a class of its own. To predict an amount, write each number in a column of its own "
        return [_classes_finding(column, message, f"{meaning}and upload again.")]
    spelled = survey.unit or plan.style in CLOCK_STYLES
    if not spelled or survey.numbers.count < survey.present:
        return []
    kept = "" if column.type is ColumnType.NUMERIC else "Set the column's type to numeric. "
    return [
        _classes_finding(
            column,
            f"'{column.name}' holds only {counted(column.unique, 'different amount')}, which are read as classes.",
            "So few amounts mostly stand for kinds: what is predicted is one of them, never a value between. If the "
            f"amount is meant: {kept}{task_hint(REGRESSION)}",
        )
    ]


def _classes_finding(column: ColumnProfile, message: str, meaning: str) -> Finding:
    return Finding(
        code="amounts_as_classes", severity=Severity.INFO, message=message, meaning=meaning, column=column.name
    )


def _several_numbers(survey: ColumnSurvey) -> str:
    """One of the words, where nearly all have several numbers and nothing else."""
    several = sorted(word for word in survey.words.values if _SEVERAL.fullmatch(word))
    return several[0] if len(several) > _SPELLED_SHARE * len(survey.words.values) else ""


def no_features(columns: Sequence[ColumnProfile], target: str | None) -> list[Finding]:
    """Told where no column is left to learn from."""
    if any(column.name != target and column.type not in _UNUSED for column in columns):
        return []
    return [
        Finding(
            code="no_features",
            severity=Severity.DANGER,
            message="No column is left to learn from: besides the target all are empty, constant or identifiers.",
            meaning="It cannot be trained on as it is. Add columns, or set the types of those that do carry meaning.",
        )
    ]

"""What the figures of a table mean for training, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from codegen.profile.guess import ColumnPlan
from codegen.profile.readings import reading_findings
from codegen.profile.spellings import similar_categories
from codegen.profile.stats import ColumnStats, RepeatedRows
from codegen.profile.survey import ColumnSurvey
from codegen.profile.types import ColumnProfile, ColumnType, DataProblem, Finding, Severity
from worker.words import counted, share_words

DATE_COLUMN = "date_column"
"""Code of a finding that gives way to a graver one of the same column."""
_RANK = {Severity.DANGER: 0, Severity.WARNING: 1, Severity.INFO: 2}
_PER_CODE = 20
"""Findings of one kind that are told one by one."""
_HIGH_CARDINALITY = 100
_SKEW = 5.0
_FEW_ROWS = 100


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Worst first; beyond `_PER_CODE` of one kind the rest is told in one sentence."""
    kept: list[Finding] = []
    seen: Counter[str] = Counter()
    last: dict[str, Finding] = {}
    for finding in sorted(findings, key=lambda finding: _RANK[finding.severity]):
        seen[finding.code] += 1
        last[finding.code] = finding
        if seen[finding.code] <= _PER_CODE:
            kept.append(finding)
    for code, count in seen.items():
        if count > _PER_CODE:
            kept.append(
                Finding(
                    code=code,
                    severity=last[code].severity,
                    message=f"{counted(count - _PER_CODE, 'more finding')} of this kind ({code.replace('_', ' ')}).",
                    meaning=last[code].meaning,
                )
            )
    return tuple(sorted(kept, key=lambda finding: _RANK[finding.severity]))


def as_finding(problem: DataProblem | Finding, rows: tuple[int, ...] = ()) -> Finding:
    """A problem that stands against training, as the worst kind of warning; `rows` are added where it names none."""
    if isinstance(problem, Finding):
        return Finding(**{**vars(problem), "rows": problem.rows or rows})
    return Finding(
        code=problem.code,
        severity=Severity.DANGER,
        message=problem.message,
        meaning=f"It cannot be trained on as it is. {problem.hint}",
        column=problem.column,
        rows=rows or ((problem.row,) if problem.row else ()),
        files=(problem.file,) if problem.file else (),
    )


def column_findings(
    column: ColumnProfile, survey: ColumnSurvey, plan: ColumnPlan, stats: ColumnStats, is_target: bool
) -> list[Finding]:
    """All about one column."""
    found: list[Finding] = []
    if column.missing == stats.rows:
        empty = is_target and not survey.present  # that is told of the target, and worse
        found = [] if empty else [_all_missing(column, survey)]
        return [*found, *reading_findings(column, survey, plan, is_target)]
    if column.missing and not is_target:
        found.append(_missing(column, stats))
    if column.type is ColumnType.NUMERIC:
        found.extend(_numeric(column, survey))
    elif column.type is ColumnType.DATE and survey.present > stats.rows - stats.missing:
        found.append(_lost(column, survey, stats))
    if not is_target:
        found.extend(_left_out(column))
        if column.type is ColumnType.CATEGORY and column.unique > _HIGH_CARDINALITY:
            found.append(_high_cardinality(column))
        found.extend(similar_categories(column, stats.counts or ()))
    if column.type is ColumnType.CATEGORY and survey.numbers.count and survey.words.count:
        found.append(_mixed_category(column, survey))
    return [*found, *reading_findings(column, survey, plan, is_target)]


def table_findings(rows: int, repeats: int, repeated_rows: tuple[int, ...]) -> list[Finding]:
    """All about the rows."""
    found = []
    if repeats:
        share = repeats / rows
        found.append(
            Finding(
                code="duplicate_rows",
                severity=Severity.WARNING if share >= 0.01 else Severity.INFO,
                message=f"{counted(repeats, 'row repeats', 'rows repeat')} an earlier row in every column that carries "
                f"signal ({share_words(share)}).",
                meaning="A random split keeps copies in one part, but for what is as common as one row in fifty, and "
                "where so few answers make a row that rows are alike by chance; a split that the data brings is kept "
                "as it is. Remove copies where a row is one observation; keep them where equal rows are real.",
                rows=repeated_rows,
            )
        )
    if rows > RepeatedRows.MAX_ROWS:
        found.append(
            Finding(
                code="duplicates_not_compared",
                severity=Severity.INFO,
                message=f"Only the first {RepeatedRows.MAX_ROWS:,} of {rows:,} rows were searched for repeated rows.",
                meaning="There may be more copies than are counted.",
            )
        )
    if rows < _FEW_ROWS:
        found.append(
            Finding(
                code="few_rows",
                severity=Severity.WARNING,
                message=f"There {'is' if rows == 1 else 'are'} only {counted(rows, 'row')}.",
                meaning="A split leaves very few to test with, so the figures are rough. Add rows if you can.",
            )
        )
    return found


def _all_missing(column: ColumnProfile, survey: ColumnSurvey) -> Finding:
    forced = f" Of its {counted(survey.present, 'value')} none is a {column.type.value}." if survey.present else ""
    return Finding(
        code="all_missing",
        severity=Severity.WARNING,
        message=f"'{column.name}' has no usable value.{forced}",
        meaning="It carries no information and is left out."
        + (f" Set its type back to {column.guessed_type.value}." if forced else ""),
        column=column.name,
    )


def _missing(column: ColumnProfile, stats: ColumnStats) -> Finding:
    share = column.missing / stats.rows
    severity = Severity.INFO if share < 0.05 else Severity.WARNING if share < 0.6 else Severity.DANGER
    if column.type is ColumnType.CATEGORY and column.unique == 1:
        severity = Severity.INFO  # a tick in a box: what is missing is the other answer
    filled = {
        ColumnType.NUMERIC: "Missing numbers become the median of the training rows, marked by a column of their own",
        ColumnType.CATEGORY: "Missing values are a category of their own where two training rows and more lack one",
    }.get(column.type, "What is read from missing values becomes the median of the training rows")
    return Finding(
        code="missing_values",
        severity=severity,
        message=f"'{column.name}' is missing in {column.missing:,} of {counted(stats.rows, 'row')} "
        f"({share_words(share)}).",
        meaning=f"{filled}. Ask why they are missing: the reason may not hold for new rows.",
        column=column.name,
        rows=tuple(stats.missing_rows),
    )


def _numeric(column: ColumnProfile, survey: ColumnSurvey) -> list[Finding]:
    found = []
    if survey.words.count:
        places = ", ".join(f"'{value}' in row {row:,}" for row, value in survey.words.examples[:3])
        found.append(
            Finding(
                code="mixed_types",
                severity=Severity.WARNING,
                message=f"'{column.name}' holds numbers, but "
                f"{counted(survey.words.count, 'value is a word', 'values are words')}: {places}.",
                meaning="The words count as missing, in predictions too. If they mean something, set the column's type "
                "to category.",
                column=column.name,
                rows=tuple(row for row, _ in survey.words.examples),
            )
        )
    if survey.numbers.infinite:
        found.append(
            Finding(
                code="infinite_values",
                severity=Severity.WARNING,
                message=f"'{column.name}' holds {counted(survey.numbers.infinite, 'infinite or too large value')}.",
                meaning="They count as missing: one of them would make the loss NaN.",
                column=column.name,
                rows=tuple(survey.numbers.infinite_rows),
            )
        )
    if column.skew is not None and abs(column.skew) > _SKEW and column.unique > 2:
        found.append(
            Finding(
                code="skewed",
                severity=Severity.INFO,
                message=f"'{column.name}' is very uneven (skew {column.skew:.1f}): few values lie far from the rest.",
                meaning="The far values dominate a squared loss and squeeze the others. Check that they are real; "
                "as an amount to predict, its logarithm may do better.",
                column=column.name,
            )
        )
    return found


def _lost(column: ColumnProfile, survey: ColumnSurvey, stats: ColumnStats) -> Finding:
    lost = survey.present - (stats.rows - stats.missing)
    return Finding(
        code="mixed_types",
        severity=Severity.WARNING,
        message=f"{counted(lost, 'value')} of '{column.name}' {'is not a date' if lost == 1 else 'are not dates'} "
        "in the format of the others, nor in another that leaves no doubt.",
        meaning="They count as missing.",
        column=column.name,
        rows=tuple(stats.missing_rows),
    )


def _left_out(column: ColumnProfile) -> list[Finding]:
    reasons = {
        ColumnType.CONSTANT: ("constant_column", "has only one value", "It distinguishes nothing and is left out."),
        ColumnType.IDENTIFIER: (
            "identifier_column",
            "names rows instead of describing them",
            "A model would memorise it, so it is left out. Set its type if it does carry meaning.",
        ),
        ColumnType.TEXT: (
            "text_column",
            "is free text",
            "What it is about is read from words that occur together, beside its length; their order is not. Set its "
            "type to category if whole values matter.",
        ),
        ColumnType.DATE: (
            DATE_COLUMN,
            "is a date",
            "Rows of a later time are a fairer test than rows chosen at random if the world changes: a split by time "
            "with this column (under Data in the form, data.split in YAML) trains on the past and tests on the latest.",
        ),
    }
    if column.type not in reasons:
        return []
    code, what, meaning = reasons[column.type]
    return [
        Finding(
            code=code,
            severity=Severity.INFO,
            message=f"'{column.name}' {what} ({column.reason})."
            if column.type is column.guessed_type
            else f"'{column.name}' {what}, as was set.",
            meaning=meaning,
            column=column.name,
        )
    ]


def _high_cardinality(column: ColumnProfile) -> Finding:
    return Finding(
        code="high_cardinality",
        severity=Severity.WARNING,
        message=f"'{column.name}' has {'' if column.unique_is_exact else 'more than '}"
        f"{counted(column.unique, 'category', 'categories')}.",
        meaning="Rare categories are memorised or never seen again. Merge them, or leave the column out.",
        column=column.name,
    )


def _mixed_category(column: ColumnProfile, survey: ColumnSurvey) -> Finding:
    numbers, words = counted(survey.numbers.count, "number"), counted(survey.words.count, "word")
    return Finding(
        code="mixed_types",
        severity=Severity.INFO,
        message=f"'{column.name}' mixes {numbers} with {words}; it is read as a category.",
        meaning="Equal amounts written differently count as different. "
        f"Set the type to numeric if the words are mistakes: {survey.words.count:,} of "
        f"{counted(survey.present, 'value')} would count as missing then.",
        column=column.name,
        rows=tuple(row for row, _ in survey.words.examples),
    )

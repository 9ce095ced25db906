"""A dataset profile as rows that a template can walk through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from codegen.profile.naming import are_labels
from codegen.profile.types import PLAIN_NUMBERS, ColumnProfile, ColumnType, DatasetProfile, Finding
from harness.pages.figures import figure
from harness.pages.words import COLUMN_TYPE_WORDS
from worker.words import counted

CLASSES_SHOWN = 20
TOP_SHOWN = 5
ALIKE_SHOWN = 2
"""Findings of one kind that all stand open; of more, the first one does."""
_DIGITS = {"second": 19, "minute": 16, "hour": 16, "day": 10, "week": 10, "month": 7, "quarter": 7, "year": 4}
"""How much of a moment tells when a bar of this length begins: `2020-01` of a month."""
READ_OTHERWISE = frozenset(
    {
        "bad_quotes", "nul_byte", "one_column", "ragged_rows", "title_line", "too_many_columns", "unknown_encoding",
        "unterminated_quote", "wrong_delimiter", "wrong_encoding",
    }
)  # fmt: skip
"""Codes of problems of a text that another delimiter or encoding may cure."""


BROKEN = frozenset({"broken_archive", "broken_file", "broken_gzip", "broken_picture", "empty_file"})
"""Codes of problems of the bytes themselves, which reading them once more cures never."""


def may_read_otherwise(problem: dict[str, Any]) -> bool:
    """Whether to ask for another delimiter or encoding: of no use to a broken archive or a web page."""
    return problem.get("code") in READ_OTHERWISE


def finding_groups(findings: Iterable[Finding]) -> list[tuple[Finding, list[Finding]]]:
    """Findings in their order, each with those to fold below it: of the same kind, with the same advice."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.code, finding.severity, finding.meaning), []).append(finding)
    return [
        group
        for alike in groups.values()
        for group in ([(alike[0], alike[1:])] if len(alike) > ALIKE_SHOWN else [(one, []) for one in alike])
    ]


def column_rows(
    profile: DatasetProfile, overrides: dict[str, str], sent: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Each column with its share of missing values and its warnings counted; `sent`: a form of its types, refused."""
    found: dict[str, int] = {}
    notes: dict[str, int] = {}
    for finding in profile.warnings:
        if finding.column:
            counts = notes if finding.severity == "info" else found
            counts[finding.column] = counts.get(finding.column, 0) + 1
    return [
        {
            "profile": column,
            "missing_share": column.missing / profile.rows if profile.rows else 0.0,
            "overridden": column.name in overrides,
            "type": (sent or {}).get(f"type:{column.name}", column.type),
            "type_words": _type_words(column.type),
            "guessed": _type_words(column.guessed_type).lower(),
            "is_plain": column.reason == PLAIN_NUMBERS,
            "is_target": column.name == profile.target,
            "warnings": found.get(column.name, 0),
            "notes": notes.get(column.name, 0),
            "top": _top(column, profile.rows - column.missing),
            "examples": [_written(column, value) for value in column.examples],
            "figures": _figures(column),
            "time": (time := _time(column)),
            "ends": (time["first"], time["last"]) if time else _ends(column),
        }
        for column in profile.columns
    ]


def _type_words(kind: str) -> str:
    return COLUMN_TYPE_WORDS.get(str(kind), str(kind))


def _top(column: ColumnProfile, present: int) -> list[tuple[str, int, float]]:
    """(value, rows, share of the `present` rows that have a value, as the classes have it) of the most frequent ones;
    none where each value is in one row only."""
    found = column.top_values[:TOP_SHOWN]
    if not found or found[0][1] < 2:
        return []
    return [(_written(column, value), count, count / present if present else 0.0) for value, count in found]


def _written(column: ColumnProfile, value: str) -> str:
    """A date without the time of day where that is midnight, and never with millionths of a second."""
    if column.type != ColumnType.DATE:
        return value
    return value.removesuffix(".000000").removesuffix(" 00:00:00")


def rows_written(profile: DatasetProfile, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """Rows of the data as the profile writes their values; `names` are those of their columns, of which a row that
    somebody's program wrote may have more or fewer."""
    known = {column.name: column for column in profile.columns}
    columns = [known.get(name) for name in names]
    return [
        [
            _written(column, value) if column and isinstance(value, str) else value
            for column, value in zip(columns, row, strict=False)
        ]
        + list(row[len(columns) :])
        for row in rows
    ]


def number_written(column: ColumnProfile, value: float | None) -> str:
    """A figure of a column, without marks of thousands where its numbers are years or keys: `1950`, `1984.2`."""
    return figure(value).replace(",", "") if are_labels(column) else figure(value)


def _figures(column: ColumnProfile) -> dict[str, str]:
    """Of a column of numbers, as they are written; empty for others."""
    if column.mean is None:
        return {}
    names = ("minimum", "maximum", "mean", "std")
    return {name: number_written(column, getattr(column, name)) for name in names}


def _ends(column: ColumnProfile) -> tuple[str, ...]:
    """Of the histogram of a column of numbers."""
    return tuple(number_written(column, edge) for edge in (column.minimum, column.maximum) if edge is not None)


def _time(column: ColumnProfile) -> dict[str, Any]:
    """Of a column of dates: its ends, bars with what each tells, and the longest of its gaps; empty for others."""
    span = column.span
    if span is None:
        return {}
    bar = _DIGITS[span.unit.split()[-1].removesuffix("s")]
    digits = _DIGITS["day"] if "hour" in column.same_parts else max(bar, _DIGITS["minute"])
    longest = span.gaps[0] if span.gaps else None
    bars = [f"{start[:bar]}: {counted(rows, 'row')}" for start, rows in zip(span.starts, span.counts, strict=True)]
    return {
        "first": span.first[:digits],
        "last": span.last[:digits],
        "unit": span.unit,
        "counts": span.counts,
        "bars": bars,
        "begins": span.first[:bar],
        "ends": span.last[:bar],
        "gaps": len(span.gaps),
        "gap": f"{longest.after[:digits]} to {longest.until[:digits]}" if longest else "",
    }


def class_bars(profile: DatasetProfile) -> dict[str, Any]:
    """The most frequent classes with their shares of the largest and of all rows that have a class, how many are
    left out, and how many rows have none."""
    target = next((column for column in profile.columns if column.name == profile.target), None)
    counts = [count for _, count in profile.classes]
    top, total = max(counts, default=1) or 1, sum(counts) or 1
    bars = [
        {"name": name, "count": count, "of_top": count / top, "share": count / total}
        for name, count in profile.classes[:CLASSES_SHOWN]
    ]
    return {
        "bars": bars,
        "more": max(0, len(profile.classes) - CLASSES_SHOWN),
        "count": len(profile.classes),
        "without": target.missing if target else 0,
    }


def thumbnails_by_class(profile: DatasetProfile) -> list[tuple[str, int, list[str]]]:
    """(class, pictures, thumbnail files) in the order of the classes."""
    if profile.images is None:
        return []
    files: dict[str, list[str]] = {}
    for name, file in profile.images.thumbnails:
        files.setdefault(name, []).append(file)
    counts = dict(profile.classes)
    return [(name, counts.get(name, 0), found) for name, found in files.items()]

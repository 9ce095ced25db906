"""What every reader of tables offers, and the record of lines that had to be left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import polars as pl

from codegen.profile.problems import fail
from codegen.profile.text_form import TextForm
from codegen.profile.types import Finding, Severity
from worker.words import counted

MAX_COLUMNS = 10_000
MAX_BAD_SHARE = 0.1
"""More unreadable lines than this share: the file is refused."""
_EXAMPLES = 5


class TableSource(Protocol):
    """A table that can be read once, in batches."""

    @property
    def names(self) -> tuple[str, ...]:
        """Unique column names; behind the last batch without columns at the end that turned out to be none."""

    @property
    def description(self) -> str:
        """For `DatasetProfile.source_format`."""

    @property
    def form(self) -> TextForm | None:
        """How rows to predict for may be written, too; behind the last batch. None of what is no delimited text."""

    @property
    def decimal_comma(self) -> bool:
        """Whether `1,234` is one and a bit, where no other value of its column tells what the comma means."""

    @property
    def spelled_alike(self) -> bool:
        """Whether one column tells how numbers are spelled in the others, as where a spreadsheet wrote them all."""

    def batches(self) -> Iterator[tuple[pl.DataFrame, float]]:
        """(columns of text, Int64, UInt64, Float64 or Datetime; share of the file read)."""

    def findings(self) -> list[Finding]:
        """What was found while reading; complete after the last batch."""


class NumbersAsNumbers:
    """What is the same of all tables whose format has numbers of its own: nothing of them is spelled."""

    form: TextForm | None = None
    decimal_comma: bool = False
    spelled_alike: bool = False


@dataclass
class BadLines:
    """Lines that are no rows: left out and named, or, if they are many, the reason to refuse the file."""

    file: str
    what: str
    """Of several, e.g. `are not JSON objects`."""
    what_one: str
    """Of one, e.g. `is no JSON object`."""
    hint: str
    code: str
    count: int = 0
    lines: list[int] = field(default_factory=list)
    details: list[str] = field(default_factory=list)

    def add(self, line: int, detail: str) -> None:
        """Note one line."""
        self.count += 1
        if len(self.lines) < _EXAMPLES:
            self.lines.append(line)
            self.details.append(detail)

    def check(self, good: int) -> None:
        """Raise `DataError` where more than `MAX_BAD_SHARE` of all lines are bad."""
        if self.count <= MAX_BAD_SHARE * (good + self.count):
            return
        fail(
            self.code,
            f"{self.count:,} of {counted(good + self.count, 'line')} {self.what}; the first is line {self.lines[0]:,}: "
            f"{self.details[0]}.",
            self.hint,
            row=self.lines[0],
            file=self.file,
        )

    def findings(self) -> list[Finding]:
        """One finding, if there is any bad line."""
        if not self.count:
            return []
        places = "; ".join(f"line {line:,}: {detail}" for line, detail in zip(self.lines, self.details, strict=True))
        return [
            Finding(
                code=self.code,
                severity=Severity.WARNING,
                message=f"{counted(self.count, f'line {self.what_one}', f'lines {self.what}')} ({places}).",
                meaning=f"Left out; the other rows are used. {self.hint}",
                rows=tuple(self.lines),
            )
        ]


def unique_names(raw: list[str]) -> tuple[tuple[str, ...], list[Finding]]:
    """Column names without blanks and repeats, and what was changed.

    Raises `DataError` for too many columns, and for a name that stands for other columns where polars selects by it.
    """
    if len(raw) > MAX_COLUMNS:
        fail(
            "too_many_columns",
            f"The table has {len(raw):,} columns; at most {MAX_COLUMNS:,} are read.",
            "Check the delimiter; else reduce the columns, or upload pictures as pictures.",
        )
    if pattern := next((name for name in raw if _is_pattern(name)), None):
        fail(
            "pattern_name",
            f"A column is called '{pattern}', which means other columns to what reads tables.",
            "Rename it; '*' alone is no name, nor is one that begins with ^ and ends with $.",
            column=pattern,
        )
    names: list[str] = []
    repeated: list[str] = []
    blank: list[str] = []
    taken = set(raw)
    used: set[str] = set()
    for number, given in enumerate(raw, start=1):
        name = given or f"column_{number}"
        if name in used or (not given and name in taken):
            (repeated if given else blank).append(given or name)
            copy = 2
            while f"{name}_{copy}" in taken or f"{name}_{copy}" in used:
                copy += 1
            name = f"{name}_{copy}"
        elif not given:
            blank.append(name)
        used.add(name)
        names.append(name)
    return tuple(names), _name_findings(repeated, blank)


def _is_pattern(name: str) -> bool:
    return name == "*" or (name.startswith("^") and name.endswith("$"))


def _name_findings(repeated: list[str], blank: list[str]) -> list[Finding]:
    found = []
    if repeated:
        shown = ", ".join(f"'{name}'" for name in dict.fromkeys(repeated[:10]))
        found.append(
            Finding(
                code="duplicate_headers",
                severity=Severity.WARNING,
                message=f"Several columns have the same name: {shown}.",
                meaning="The later ones got a number, e.g. name_2. Check that none of them is the target by accident.",
                column=repeated[0],
            )
        )
    if blank:
        more = f" and {len(blank) - _EXAMPLES:,} more" if len(blank) > _EXAMPLES else ""
        found.append(
            Finding(
                code="unnamed_columns",
                severity=Severity.INFO,
                message=f"{counted(len(blank), 'column without a name was', 'columns without a name were')} named "
                f"{', '.join(blank[:_EXAMPLES])}{more}.",
                meaning="Often a row number that was exported along. Leave it out if it is.",
                column=blank[0],
            )
        )
    return found

"""Whether rows are split at random, by group or by time, and by which column; every mistake named by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from codegen.notes import Notes
from codegen.profile.groups import GROUP_COLUMN
from codegen.profile.time_series import TIME_SERIES
from codegen.profile.types import ColumnProfile, ColumnType, DataKind, DatasetProfile
from codegen.spec import Split, TaskSpec
from worker.words import counted

BY, COLUMN = "data.split.by", "data.split.column"
PARTS = 3
"""Training, validation and test: each gets a group or moment."""
_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class SplitBy:
    """How rows are chosen for the parts."""

    by: str = ""
    """`random`, `group` or `time`; empty where the data bring their own split, and for pictures."""
    column: str = ""
    """Of the groups or of the time."""

    def to_dict(self) -> dict[str, Any]:
        """What the spec says of it."""
        return {name: value for name, value in (("by", self.by), ("column", self.column)) if value}


def split_by(spec: TaskSpec, profile: DatasetProfile, target: str, notes: Notes) -> SplitBy:
    """Replace `auto`, check the column; mistakes go to `notes`."""
    wish = spec.data.split if spec.data.split != "auto" else Split()
    if profile.kind is DataKind.IMAGES:
        if wish.by not in ("auto", "random") or wish.column != "auto":
            field = COLUMN if wish.column != "auto" else BY
            notes.problem(field, "pictures have no columns to split by; leave it `auto`, or upload train/ and test/")
        return SplitBy()
    if profile.given_split:
        if wish.by in ("group", "time") or wish.column != "auto":
            field = COLUMN if wish.by == "auto" else BY
            notes.problem(field, "the upload comes with its own split, which is kept; use `auto`, or upload without it")
        return SplitBy()
    by, column = _chosen(wish, profile, target, notes)
    if column is not None:
        _check(by, column, profile, target, notes)
    return SplitBy(by=by, column=column or "")


def _chosen(wish: Split, profile: DatasetProfile, target: str, notes: Notes) -> tuple[str, str | None]:
    """(by, column) with `auto` replaced; no column where it is not known or not needed."""
    if wish.by == "auto" and wish.column == "auto":
        notes.note(BY, "random", _advice(profile, target))
        return "random", None
    if wish.by == "random":
        if wish.column != "auto":
            notes.problem(COLUMN, "a random split takes no column; leave it `auto`, or set by: group or by: time")
        return "random", None
    if wish.column == "auto":
        return wish.by, _column_found(wish.by, profile, target, notes)
    if wish.by != "auto":
        return wish.by, wish.column
    column = profile.column(wish.column)
    if column is not None and column.type is ColumnType.NUMERIC:
        notes.problem(BY, f"{wish.column!r} holds numbers: say whether they are groups (group) or a time (time)")
    by = "time" if column is not None and column.type is ColumnType.DATE else "group"
    notes.note(BY, by, f"{wish.column!r} {'holds dates' if by == 'time' else 'names groups'}")
    return by, wish.column


def _column_found(by: str, profile: DatasetProfile, target: str, notes: Notes) -> str | None:
    """The column that the data suggest, or a problem that names those to choose from."""
    found = _dates(profile, target) if by == "time" else _suspects(profile, target, GROUP_COLUMN)
    if len(found) == 1:
        reason = "the only column of dates" if by == "time" else "the only column that looks like the name of a group"
        notes.note(COLUMN, found[0], reason)
        return found[0]
    what = "with the time" if by == "time" else "whose rows belong together"
    if found:
        notes.problem(COLUMN, f"name the column {what}: {_named(found)} look like it")
    else:
        others = [column.name for column in profile.columns if column.name != target]
        notes.problem(COLUMN, f"name the column {what}; the columns are {_named(others)}")
    return None


def _check(by: str, name: str, profile: DatasetProfile, target: str, notes: Notes) -> None:
    column = profile.column(name)
    if column is None:
        names = _named([column.name for column in profile.columns])
        notes.problem(COLUMN, f"there is no column {name!r}; the columns are {names}")
    elif name == target:
        notes.problem(COLUMN, f"{name!r} is the target; choose the column that says {_what(by)}")
    elif by == "group":
        _check_groups(column, profile, notes)
    else:
        _check_time(column, profile, target, notes)


def _check_groups(column: ColumnProfile, profile: DatasetProfile, notes: Notes) -> None:
    groups = column.unique + bool(column.missing)  # rows without a value are a group, too
    if groups == 1:
        notes.problem(COLUMN, f"all rows are one group of {column.name!r}, which has one value; choose another column")
    elif groups < PARTS:
        notes.problem(
            COLUMN,
            f"{column.name!r} has {counted(groups, 'group')}, but training, validation and test need one each; "
            "choose a column with more groups",
        )
    elif column.unique_is_exact and groups == profile.rows:
        notes.problem(
            COLUMN,
            f"every row has a {column.name!r} of its own: as groups these are a random split; choose the column that "
            "repeats, or set by: random",
        )


def _check_time(column: ColumnProfile, profile: DatasetProfile, target: str, notes: Notes) -> None:
    """Of a number's or date's column the program checks the rest: only it reads the rows that have a target."""
    if not _is_ordered(column):
        notes.problem(
            COLUMN,
            f"{column.name!r} is read as {column.type.value}, and cannot be put in the order of time; set its type to "
            "date or numeric on the page of the dataset, or choose another column",
        )
        return
    goal = profile.column(target)
    if column.missing > (goal.missing if goal else 0):
        rows = "row has" if column.missing == 1 else "rows have"
        notes.problem(
            COLUMN,
            f"{column.missing:,} {rows} no readable {column.name!r}, so the order is not known; fill it in or leave "
            "those rows out of the upload, or choose another column",
        )
    elif column.unique < PARTS:
        notes.problem(
            COLUMN,
            f"{column.name!r} has {counted(column.unique, 'moment')}, but training, validation and test need one each; "
            "choose a finer column",
        )


def _is_ordered(column: ColumnProfile) -> bool:
    """Dates, numbers, numbers that count the rows; and what is the same in all rows, of which more is told later."""
    if column.type is ColumnType.IDENTIFIER:
        return all(text.removeprefix("-").isdecimal() for text in column.examples)
    return column.type in (ColumnType.NUMERIC, ColumnType.DATE, ColumnType.CONSTANT)


def _advice(profile: DatasetProfile, target: str) -> str:
    """Why rows are split at random, and what the data say against it."""
    said = []
    if groups := _suspects(profile, target, GROUP_COLUMN):
        said.append(f"if rows with the same {groups[0]!r} belong together, set by: group")
    if series := _suspects(profile, target, TIME_SERIES):
        said.append(
            f"rows follow one another evenly by {series[0]!r}: if they are a series, neighbours of test rows are "
            "trained on, so set by: time"
        )
    elif dates := _dates(profile, target):
        said.append(f"if the model is for later rows than these, set by: time ({dates[0]!r} holds dates)")
    return "right where rows do not depend on one another" + "".join(f"; {sentence}" for sentence in said)


def _suspects(profile: DatasetProfile, target: str, code: str) -> list[str]:
    """Columns that a finding of this kind names."""
    found = [finding.column for finding in profile.warnings if finding.code == code]
    return [name for name in found if name is not None and name != target]


def _dates(profile: DatasetProfile, target: str) -> list[str]:
    return [column.name for column in profile.columns if column.type is ColumnType.DATE and column.name != target]


def _what(by: str) -> str:
    return "when a row was seen" if by == "time" else "which rows belong together"


def _named(names: list[str]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")

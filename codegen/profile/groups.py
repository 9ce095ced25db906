"""Columns that look like the name of a group: of a customer, a patient, a device that several rows tell of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from codegen.profile.types import ColumnProfile, ColumnType, DatasetProfile, Finding, Severity
from worker.words import counted

if TYPE_CHECKING:
    import polars as pl

GROUP_COLUMN = "group_column"
"""Code of the finding."""
_FEWEST_GROUPS = 5
_ROWS_PER_GROUP = 2
"""Fewer on average, and rows hardly repeat a value."""
_MANY_VALUES = 20
"""A column of words needs so many different ones, if its name does not tell."""
_SAME_SHARE = 0.9
"""Share of groups with one target value, from which on the target belongs to the group."""
_CHANCE_SHARE = 0.6
"""With as many by chance, the same target in a group tells nothing."""
_WHOLE = (
    "patient|subject|participant|person|customer|client|user|member|household|student|employee|author|speaker|writer"
    "|device|machine|sensor|vehicle|session|account"
)
_NAME = re.compile(
    rf"(^|[^a-z])(({_WHOLE})s?([ _.-]*(id|no|nr|num|number|key|code|name))?|id|uuid|guid)$", re.ASCII | re.IGNORECASE
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def group_findings(sample: pl.DataFrame, profile: DatasetProfile) -> list[Finding]:
    """The columns in words, those first whose groups have one target value each."""
    found = []
    for column in profile.columns:
        if column.name == profile.target or not _repeats(column, profile.rows):
            continue
        named = bool(_NAME.search(_CAMEL.sub("_", column.name)))
        many_words = column.type is ColumnType.CATEGORY and column.unique >= _MANY_VALUES
        same = (
            (named or many_words) and profile.target is not None and _same_target(sample, column.name, profile.target)
        )
        if named or same:
            found.append(_finding(column, profile, same))
    return sorted(found, key=lambda finding: finding.severity is not Severity.WARNING)


def _repeats(column: ColumnProfile, rows: int) -> bool:
    names = column.type is ColumnType.CATEGORY or (column.type is ColumnType.NUMERIC and column.whole_numbers)
    return names and _FEWEST_GROUPS <= column.unique <= (rows - column.missing) / _ROWS_PER_GROUP


def _same_target(sample: pl.DataFrame, name: str, target: str) -> bool:
    """Whether nearly every group has one value of the target, and by chance it would not."""
    rows = sample.select(group=name, target=target).drop_nulls()
    mixed = np.random.default_rng(0).permutation(rows.height)
    shuffled = rows.with_columns(target=rows["target"].gather(mixed))
    return _same_share(rows) >= _SAME_SHARE and _same_share(shuffled) <= _CHANCE_SHARE


def _same_share(rows: pl.DataFrame) -> float:
    """Share of the groups of several rows that have one value of the target; 0 where there are no such groups."""
    import polars as pl

    groups = rows.group_by("group").agg(pl.len().alias("rows"), pl.col("target").n_unique().alias("values"))
    several = groups.filter(pl.col("rows") > 1)
    return float((several["values"] == 1).mean() or 0.0) if several.height else 0.0  # type: ignore[arg-type]


def _finding(column: ColumnProfile, profile: DatasetProfile, same: bool) -> Finding:
    each = (profile.rows - column.missing) / column.unique
    most = "" if column.unique_is_exact else "more than "
    told = f", and '{profile.target}' is the same in all rows of one" if same else ""
    return Finding(
        code=GROUP_COLUMN,
        severity=Severity.WARNING if same else Severity.INFO,
        message=f"'{column.name}' looks like the name of a group: {most}{counted(column.unique, 'value')}, each in "
        f"about {counted(round(each), 'row')}{told}.",
        meaning="With a random split rows of one group lie in training and in test, and the figures are too good for "
        "groups that the model has never seen. A split by group with this column (under Data in the form, "
        "data.split in YAML) keeps each group in one part.",
        column=column.name,
    )

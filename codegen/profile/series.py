"""Columns of dates at which rows follow one another evenly: if they are a series, a random split flatters the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from codegen.profile.findings import DATE_COLUMN
from codegen.profile.types import TIME_SERIES, ColumnProfile, ColumnType, DatasetProfile, Finding, Severity
from worker.words import duration_words

_FEWEST_ROWS = 50
_ROWS_READ = 1_000_000
_MISSING_SHARE = 0.02
_REPEATED_SHARE = 0.02
"""The hour that comes twice in autumn is none the less one of a series."""
_EVEN_SHARE = 0.75
"""Of the steps: a row a working day is a series, too, with longer steps at weekends."""
_STEP_TOLERANCE = 0.1
"""Months have 28 to 31 days."""


def with_series(findings: list[Finding], profile: DatasetProfile, table: Path) -> list[Finding]:
    """The findings, with a warning of each such column of a packed table in the place of the note that it is a date.

    Where the data brings its own split, none is drawn at random.
    """
    if profile.given_split or profile.rows < _FEWEST_ROWS:
        return findings
    found = []
    for column in profile.columns:
        if column.type is ColumnType.DATE and column.name != profile.target and _is_filled(column, profile.rows):
            step_s = _even_step_s(_moments(table, column.name))
            found += [_finding(column.name, step_s)] if step_s else []
    names = {finding.column for finding in found}
    return [*(told for told in findings if told.code != DATE_COLUMN or told.column not in names), *found]


def _is_filled(column: ColumnProfile, rows: int) -> bool:
    return column.missing <= _MISSING_SHARE * rows


def _moments(table: Path, column: str) -> npt.NDArray[np.int64]:
    """Microseconds since 1970, sorted, of the first rows."""
    read: list[npt.NDArray[np.int64]] = []
    with pq.ParquetFile(table) as parquet:
        for batch in parquet.iter_batches(columns=[column], use_threads=False):
            read.append(batch.column(0).drop_null().cast(pa.int64()).to_numpy())
            if sum(map(len, read)) >= _ROWS_READ:
                break
    return np.sort(np.concatenate(read))


def _even_step_s(moments: npt.NDArray[np.int64]) -> float:
    """Seconds from one moment to the next, where nearly all steps are about the same; else 0."""
    steps = np.diff(moments)
    usual = float(np.median(steps))
    even = np.abs(steps - usual) <= _STEP_TOLERANCE * usual
    if not usual or (steps == 0).mean() > _REPEATED_SHARE or even.mean() < _EVEN_SHARE:
        return 0.0
    return usual / 1e6


def _finding(column: str, step_s: float) -> Finding:
    return Finding(
        code=TIME_SERIES,
        severity=Severity.WARNING,
        message=f"The rows may be a series in time: by '{column}' most follow the one before after "
        f"{duration_words(step_s)}.",
        meaning="If they are, a random split puts the neighbours of test rows into training, so its figures flatter: "
        "set data.split to by: time with this column, which trains on the past and tests on the latest rows. If each "
        "row is an event of its own, a random split is right. Either way a row is predicted from its own columns, not "
        "from earlier rows.",
        column=column,
    )

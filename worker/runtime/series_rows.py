"""Rows of series that predict.py goes on from: newer ones as they are sent, and the last ones for a page to show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from worker.runtime.data import DataError
from worker.runtime.dates import DATE_HINT
from worker.runtime.moments import Moments
from worker.runtime.series_checks import gap_check, needed_columns
from worker.runtime.spelling import as_trained, unread_value
from worker.runtime.tables import InputError, read_rows
from worker.words import counted

HISTORY_KEPT, SERIES_KEPT = 200, 5
"""Rows of each series, and series, that an answer shows."""


def read_series(about: dict[str, Any], path: Path, tell: Callable[[str], None] = print) -> pa.Table:
    """Newer rows of a forecast, read as those of the data. Raises `InputError`."""
    table = read_rows(path, {"forecast": about, "form": about.get("form")})
    if table.num_rows == 0:
        raise InputError("The input has no rows.", "Give a header line and at least one row.")
    numbers = [{"column": name, "kind": "numeric"} for name in (about["target"], *about["numeric"])]
    entries = [*numbers, {"column": about["time"], "kind": "dates"}]
    recent = about["recent"]  # tells how truth values are spelled
    words = [{"column": name, "values": {*recent[name]} - {None}} for name in about["categorical"]]
    known = {"numeric": entries, "categorical": words, "spelling": about["spelling"], "missing": about["missing"]}
    table = as_trained(known, table, tell)
    if unread := unread_value(known, table):
        what, hint = unread
        raise InputError(what[0].upper() + what[1:], DATE_HINT if "not a date" in what else hint)
    return table


def joined(about: dict[str, Any], table: pa.Table, newer: pa.Table) -> pa.Table:
    """The rows kept of the data and the newer ones behind them; a newer row takes the place of one of its moment.

    Rows of moments to come may have only the columns that are known ahead; one of a moment whose value is known is left
    out. Raises `ValueError` where a column is missing, or rows between.
    """
    given, target = newer.column_names, about["target"]
    has_none = target not in given or newer[target].null_count == newer.num_rows
    needed = needed_columns(about, is_plan=bool(about.get("known")) and has_none)
    if lacking := [name for name in needed if name not in given]:
        raise ValueError(f"column missing from the input: {', '.join(lacking)}")
    for field in table.schema:
        if field.name not in given:
            newer = newer.append_column(field, pa.nulls(newer.num_rows, field.type))
    newer = newer.select(table.column_names).cast(table.schema)
    keys = [name for name in (about["series"], about["time"]) if name]
    if about.get("known"):
        newer = _without_past_plans(table, newer, keys, target)
    older = table.join(newer.select(keys), keys=keys, join_type="left anti").select(table.column_names)
    for series in newer[about["series"]].unique() if about["series"] else [None]:
        begins, ends = (
            (newer, older) if series is None else (_of_series(each, about, series) for each in (newer, older))
        )
        gap_check(_moments(ends, about), _moments(begins, about), about["step_s"])
    return pa.concat_tables([older, newer])


def _without_past_plans(table: pa.Table, newer: pa.Table, keys: list[str], target: str) -> pa.Table:
    """A plan may begin before the end of the data: the values that came stand."""
    is_plan, known = pc.is_null(newer[target]), table.filter(pc.is_valid(table[target]))
    to_come = newer.filter(is_plan).join(known.select(keys), keys=keys, join_type="left anti")
    return pa.concat_tables([newer.filter(pc.invert(is_plan)), to_come.select(newer.column_names)])


def _moments(table: pa.Table, about: dict[str, Any]) -> Moments:
    moments: Moments = pc.drop_null(table[about["time"]]).cast(pa.int64()).to_numpy()
    return moments


def _of_series(table: pa.Table, about: dict[str, Any], series: pa.Scalar) -> pa.Table:
    """Its rows."""
    return table.filter(pc.equal(table[about["series"]], series))


def first_empty(about: dict[str, Any], planned: pa.Table) -> dict[str, int]:
    """By column that is known ahead the first row without a value, where there is one."""
    return {
        name: pc.index(pc.is_null(planned[name]), True).as_py() for name in about["known"] if planned[name].null_count
    }


def series_coming(
    coming: Callable[..., Any], about: dict[str, Any], newer: pa.Table | None, tell: Callable[[str], None] = print
) -> Any:
    """What `coming` of history.py makes; `tell` is told of series that it leaves out.

    Raises `InputError` where the newer rows cannot be gone on from.
    """
    try:
        made = coming(about, newer)
        _tell_left_out(about, made, newer, tell)
        return made
    except DataError as error:
        raise InputError(error.message, error.hint) from None
    except ValueError as error:
        text = str(error)
        raise InputError(f"{text[0].upper()}{text[1:]}.", "Give rows that follow on those of the data.") from None


def _tell_left_out(about: dict[str, Any], made: Any, newer: pa.Table | None, tell: Callable[[str], None]) -> None:
    _, _, labels, past = made
    if about.get("known") and labels and (most := max(step for *_, step in labels)) < about["horizon"]:
        known = ", ".join(map(repr, about["known"]))
        steps = counted(about["horizon"], "step")
        tell(f"Foretold are {most} of {steps}: of the moments after them there are no rows with {known}.")
    if not about["series"]:
        return
    foretold = {name for name, *_ in labels}
    there = [table[about["series"]].cast(pa.string()) for table in (past, newer) if table is not None]
    names = pa.chunked_array([chunk for column in there for chunk in column.chunks], pa.string()).unique()
    lacking = [str(name) for name in names.to_pylist() if name not in foretold]
    if lacking:
        named = ", ".join(map(repr, lacking[:SERIES_KEPT])) + (", ..." if len(lacking) > SERIES_KEPT else "")
        tell(
            f"{counted(len(lacking), 'series', 'series')} without a forecast ({named}): it takes {about['history']} "
            f"rows of each up to the last known value of {about['target']!r}"
            f"{' and rows of the moments to come' if about.get('known') else ''}."
        )


def series_end(about: dict[str, Any], past: pa.Table) -> dict[str, Any]:
    """The last rows of the first series that a forecast goes on from, for a page to show."""
    names = [name for name in (about["series"], about["time"], about["target"]) if name]
    series = past[about["series"]].unique()[:SERIES_KEPT] if about["series"] else [None]
    each = [past if one is None else past.filter(pc.equal(past[about["series"]], one)) for one in series]
    kept = pa.concat_tables([one.slice(max(0, one.num_rows - HISTORY_KEPT)) for one in each])
    return {"columns": names, "rows": _plain_rows(kept.select(names))}


def _plain_rows(table: pa.Table) -> list[list[Any]]:
    columns = [
        list(map(str, column.to_pylist())) if pa.types.is_temporal(column.type) else column.to_pylist()
        for column in table.columns
    ]
    return [list(row) for row in zip(*columns, strict=True)]

"""A prediction as its page shows it: answer, probabilities, input. A program wrote it: checked before use."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from harness.pages.figures import figure, is_number, percent
from harness.pages.words import NAME_WORDS

ROWS_SHOWN = 500
CLASSES_SHOWN = 20
NOTES_SHOWN = 20
PROBABILITY = "probability of "
_ANSWER, _SHARES, _INPUT = "Answer", "Probability of", "Input"
_SHARE_COLUMNS = ("confidence",)
_ENDS = {"prediction_low": "low", "prediction_high": "high"}
"""Columns with the ends of a range around a predicted number: as a table has them beside it."""
_BAND = ("forecast", "low", "high")
"""Columns of a forecast."""
RANGES_SHOWN = 2000
"""Characters of what the program says of them."""


def prediction_context(output: dict[str, Any], input_name: str, target: str = "") -> dict[str, Any]:
    """Heads in groups, rows as texts; of one row its answer for reading. `target`: the name of predicted numbers."""
    columns = [str(column) for column in output.get("columns", ())]
    rows = [row for row in output["rows"] if isinstance(row, list)]
    if columns[:1] == ["name"] and len(rows) == 1 and rows[0]:
        rows[0][0] = input_name  # the node knows a single picture only as its input
    names, inputs = _inputs(output)
    kept = _kept(columns)
    heads = [(_ANSWER, target) if target and column == "prediction" else _head(column) for column in kept] + [
        (_INPUT, name) for name in names
    ]
    places = [columns.index(column) for column in kept]
    joined = [
        [row[place] if place < len(row) else None for place in places] + _padded(inputs, index, len(names))
        for index, row in enumerate(rows[:ROWS_SHOWN])
    ]
    numeric = [_is_numeric([row[place] for row in joined]) for place in range(len(heads))]
    # By the program's own names: an input, or what is predicted, may be called `confidence` as well.
    shares = [column.startswith(PROBABILITY) or column in _SHARE_COLUMNS for column in kept] + [False] * len(names)
    return {
        "groups": [(group, len(list(of))) for group, of in groupby(group for group, _ in heads)],
        "heads": [(name, is_number) for (_, name), is_number in zip(heads, numeric, strict=True)],
        "rows": [
            [(_text(value, share), right) for value, share, right in zip(row, shares, numeric, strict=True)]
            for row in joined
        ],
        "more": max(0, len(rows) - ROWS_SHOWN),
        "classes_left_out": sum(column.startswith(PROBABILITY) for column in columns)
        - sum(column.startswith(PROBABILITY) for column in kept),
        "has_input": bool(names),
        "notes": [str(note) for note in notes[:NOTES_SHOWN]] if isinstance(notes := output.get("notes"), list) else [],
        "ranges": said[:RANGES_SHOWN] if isinstance(said := output.get("ranges"), str) else "",
        "single": single_answer(columns, rows[0]) if len(rows) == 1 else None,
        "chart": forecast_chart(output, columns, rows),
    }


def forecast_chart(output: dict[str, Any], columns: list[str], rows: list[list[Any]]) -> dict[str, Any] | None:
    """The values that a forecast goes on from, and it with its range; None of other predictions."""
    history = output.get("history")
    if not isinstance(history, dict) or "forecast" not in columns or "steps ahead" not in columns:
        return None
    named = columns.index("steps ahead") - 1  # columns with the name of the series: one or none
    given = history.get("rows")
    past = [row for row in given if isinstance(row, list) and len(row) == named + 2] if isinstance(given, list) else []
    drawn = [[row[0] if named else "", row[named], row[-1], None, None, None] for row in past]
    shown, ends = {str(row[0]) for row in drawn}, [columns.index(name) for name in _BAND if name in columns]
    for row in rows:
        name = row[0] if named else ""
        if len(row) == len(columns) and str(name) in shown:
            figures = [row[place] for place in ends]
            drawn.append([name, row[named], None, *figures, *[None] * (len(_BAND) - len(figures))])
    data = {"kind": "back_test", "title": "Forecast", "columns": ["series", "time", "true", *_BAND], "rows": drawn}
    modes = list(dict.fromkeys(str(row[0]) for row in drawn))
    every = len({str(row[0]) for row in rows if row}) if named else 1
    note = f"Drawn are the first {len(modes)} of {every:,} series; the table has all." if len(modes) < every else ""
    found = {"anchor": "forecast", "kind": "back_test", "title": "Forecast", "data": data, "note": note}
    return found | {"modes": modes if len(modes) > 1 else []}


def single_answer(columns: list[str], row: list[Any]) -> dict[str, Any] | None:
    """One row for reading: the prediction, the ends of its range, and the classes by falling probability; None for
    other columns."""
    values = dict(zip(columns, row, strict=False))
    if "prediction" not in values:
        return None
    shares = [
        (column.removeprefix(PROBABILITY), value)
        for column, value in values.items()
        if column.startswith(PROBABILITY) and isinstance(value, int | float)
    ]
    return {
        "prediction": values["prediction"],
        "ends": [values[name] for name in _ENDS if is_number(values.get(name))],
        "shares": sorted(shares, key=lambda pair: -pair[1])[:CLASSES_SHOWN],
    }


def _inputs(output: dict[str, Any]) -> tuple[list[str], list[Any]]:
    """What was predicted for, as the program repeats it; none of a picture or an older program."""
    given = output.get("inputs")
    if not isinstance(given, dict) or not all(isinstance(given.get(key), list) for key in ("columns", "rows")):
        return [], []
    return [str(name) for name in given["columns"]], given["rows"]


def _kept(columns: list[str]) -> list[str]:
    """Without the probabilities that are too many for a table."""
    shares = [column for column in columns if column.startswith(PROBABILITY)][CLASSES_SHOWN:]
    return [column for column in dict.fromkeys(columns) if column not in shares]


def _head(column: str) -> tuple[str, str]:
    if column.startswith(PROBABILITY):
        return _SHARES, column.removeprefix(PROBABILITY)
    return _ANSWER, _ENDS.get(column) or NAME_WORDS.get(column, column)


def _padded(inputs: list[Any], index: int, width: int) -> list[Any]:
    row = inputs[index] if index < len(inputs) and isinstance(inputs[index], list) else []
    return [*row[:width], *[None] * (width - len(row))]


def _is_numeric(values: list[Any]) -> bool:
    """Numbers, or texts of a CSV that are numbers."""
    given = [value for value in values if value not in (None, "")]
    return bool(given) and all(_number_like(value) for value in given)


def _number_like(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True


def _text(value: Any, is_share: bool) -> str:
    if is_share and isinstance(value, int | float):
        return percent(value)
    return value if isinstance(value, str) and value else figure(value)

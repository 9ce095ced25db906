"""Forecast with model.onnx; needs numpy and onnxruntime alone.

    pip install numpy onnxruntime
    python predict_onnx.py --output forecast.csv                      from the end of the data
    python predict_onnx.py --input rows.csv --output forecast.csv     from the end of newer rows; also .json: a list of
                                                                      {column: value}

Newer rows follow on those of the data, with the same columns; of the moments to come they have what is known ahead, and
leave the rest empty. preprocess.json has the last rows of the data. windows.py makes the inputs of the model, as in
training; what model.onnx gives is the difference to a simple forecast.
"""

import argparse
import csv
import importlib
import json
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from worker.runtime.moments import moments_after
from worker.runtime.onnx_export.answers import unread, write_csv
from worker.runtime.onnx_export.predict_table import CHUNK, encode, moment_of, unseen_tell, value_of
from worker.runtime.onnx_export.table_rows import Rows, number, plain, read_rows, respelled
from worker.runtime.series_checks import WHEN_MADE, gap_check, moment_said, needed_columns, none_planned, planned_check

HERE = Path(__file__).parent
US = timedelta(microseconds=1)
SAME_MOST = 0.02
"""Share of rows with the moment of another that is let pass."""


@dataclass(frozen=True)
class Record:
    """A row of a series."""

    name: str
    time_us: int
    value: float
    """Of the target; NaN where it is not known."""
    texts: dict[str, str]
    """Of the other columns; nothing where it is missing."""


@dataclass(frozen=True)
class Ahead:
    """What is foretold: [E] of each."""

    names: list[str]
    times: np.ndarray
    steps: np.ndarray
    base: np.ndarray
    """What the answer of the model is the difference to."""
    rows: Rows
    """Inputs, as `encode` takes them."""


def coming(about: dict[str, Any], newer: Rows | None = None, *, prefer_comma: bool = False) -> Ahead:
    """The moments after the last known values, of the data or of the `newer` rows. Raises `ValueError`."""
    windows = importlib.import_module("windows")  # of the program
    records = _kept(about)
    if newer is not None:
        records = _joined(about, records, _read(about, newer, prefer_comma))
    records.sort(key=lambda record: (record.name, record.time_us))
    numbers = {name: place for place, name in enumerate(dict.fromkeys(record.name for record in records))}
    rows = windows.Series(
        np.array([record.value for record in records]),
        np.array([record.time_us for record in records], np.int64),
        windows.starts_of(np.array([numbers[record.name] for record in records], np.int64)),
    )
    _check_moments(about, rows)
    begins = windows.begins_of(rows, about)
    moments = _moments(windows, about, rows, begins, records)
    origins = np.repeat(begins, [len(each) for each in moments])
    steps = np.concatenate([np.arange(1, len(each) + 1) for each in moments])
    times = np.concatenate(moments)
    made = windows.windows_of(rows, origins, steps, times, about["windows"])
    return Ahead(
        names=[records[at].name for at in origins],
        times=times,
        steps=steps,
        base=windows.simple_forecast(rows, origins, steps, about["base"]),
        rows=[
            {name: _text(values[row]) for name, values in made.items()}
            | _beside(about, records, int(at), int(at + step))
            for row, (at, step) in enumerate(zip(origins, steps, strict=True))
        ],
    )


def _check_moments(about: dict[str, Any], rows: Any) -> None:
    """Raise `ValueError` where moments come twice, as history.py does."""
    same = (np.diff(rows.times) == 0) & (np.diff(rows.first) == 0)
    if same.sum() > SAME_MOST * len(rows.times):
        moment = moment_said(rows.times[int(same.argmax())])
        raise ValueError(f"{same.sum():,} rows have the same {about['time']!r} as another, such as {moment}; keep one")


def _text(value: float) -> str:
    return repr(float(value)) if math.isfinite(value) else ""


def _beside(about: dict[str, Any], records: list[Record], begin: int, end: int) -> dict[str, str]:
    """Other columns: as they are at `begin`; those that are known ahead as at `end`, too."""
    texts = dict(records[begin].texts)
    for name in about.get("known", ()):
        texts |= {WHEN_MADE.format(name): texts[name], name: records[end].texts[name]}
    return texts


def _moments(
    windows: Any, about: dict[str, Any], rows: Any, begins: np.ndarray, records: list[Record]
) -> list[np.ndarray]:
    """Those after each of the rows `begins`: by the calendar, or those of the rows with what is known ahead."""
    pasts = [rows.times[rows.first[begin] : begin + 1] for begin in begins]
    if not about.get("known"):
        return [moments_after(past, about["step_s"], about["horizon"]) for past in pasts]
    places = [windows.places_ahead(rows, begin, about["horizon"]) for begin in begins]
    if not any(map(len, places)):
        raise ValueError(none_planned(about, moments_after(pasts[0], about["step_s"], about["horizon"])))
    for past, begin, ahead in zip(pasts, begins, places, strict=True):
        texts = [records[at].texts for at in ahead]
        empty = {
            name: row
            for name in about["known"]
            for row in [next((row for row, each in enumerate(texts) if not each[name]), None)]
            if row is not None
        }
        planned_check(about, past, rows.times[ahead], empty, records[begin].name)
    return [rows.times[ahead] for ahead in places]


def _kept(about: dict[str, Any]) -> list[Record]:
    """The last rows of the data."""
    recent, others = about["recent"], [*about["numeric"], *about["categorical"]]
    kept = []
    for row, time_us in enumerate(recent[about["time"]]):
        value = recent[about["target"]][row]
        texts = {name: "" if recent[name][row] is None else str(recent[name][row]) for name in others}
        kept.append(Record(texts.get(about["series"], ""), time_us, math.nan if value is None else value, texts))
    return kept


def _read(about: dict[str, Any], rows: Rows, prefer_comma: bool) -> list[Record]:
    """Newer rows. Raises `ValueError` that names row and column."""
    target, time, numbers = about["target"], about["time"], about["numeric"]
    given = set(rows[0]) if rows else set()
    is_plan = bool(about.get("known")) and not any(plain(row.get(target, "")) for row in rows)
    if lacking := [name for name in needed_columns(about, is_plan=is_plan) if name not in given]:
        raise ValueError(f"column missing from the input: {', '.join(lacking)}")
    kinds = [{"column": name, "kind": "numeric"} for name in (target, *numbers)] + [{"column": time, "kind": "dates"}]
    spelling = about["spelling"]
    found = []
    for at, row in enumerate(respelled({**about, "numeric": kinds}, rows, prefer_comma), 1):
        texts = {name: plain(row.get(name, "")) for name in (time, target, *numbers, *about["categorical"])}
        values = {
            name: value_of(number, texts[name], "", spelling.get(name, ""), name, at) for name in (target, *numbers)
        }
        texts |= {name: _text(values[name]) for name in numbers}
        if texts[time]:
            moment_us = int(value_of(_microseconds, texts[time], "", spelling.get(time, ""), time, at))
            found.append(Record(texts.get(about["series"], ""), moment_us, values[target], texts))
    return found


def _microseconds(text: str, _feature: str, spelled: str) -> int:
    return (moment_of(text, spelled) - datetime(1970, 1, 1, tzinfo=UTC)) // US


def _joined(about: dict[str, Any], older: list[Record], newer: list[Record]) -> list[Record]:
    """The newer ones behind the older ones; one takes the place of another of its moment, but no plan that of a value
    that came."""
    if about.get("known"):
        came = {(record.name, record.time_us) for record in older if math.isfinite(record.value)}
        newer = [record for record in newer if math.isfinite(record.value) or (record.name, record.time_us) not in came]
    taken = {(record.name, record.time_us) for record in newer}
    kept = [record for record in older if (record.name, record.time_us) not in taken]
    for name in dict.fromkeys(record.name for record in newer):
        gap_check(_times(kept, name), _times(newer, name), about["step_s"])
    return kept + newer


def _times(records: Iterable[Record], name: str) -> np.ndarray:
    return np.array([record.time_us for record in records if record.name == name], np.int64)


def forecast(newer: Rows | None = None, folder: Path = HERE, *, prefer_comma: bool = False) -> list[dict[str, Any]]:
    """One line for each series and moment to come, with the files in `folder`. Raises `ValueError`."""
    import onnxruntime

    files = (json.loads((folder / name).read_text(encoding="utf-8")) for name in ("onnx.json", "preprocess.json"))
    outputs, preprocess = files
    about = preprocess["forecast"]
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    ahead = coming(about, newer, prefer_comma=prefer_comma)
    values = ahead.base.copy()
    for start in range(0, len(ahead.rows), CHUNK):
        tensors = encode(preprocess, ahead.rows[start : start + CHUNK])
        given = {entry["name"]: tensors[entry["place"]] for entry in outputs["inputs"]}
        values[start : start + CHUNK] += session.run(None, given)[0]
    _planned_tell(preprocess, ahead)
    ranges = preprocess.get("prediction_ranges")
    half = (
        np.asarray(ranges["half_widths"])[np.searchsorted(ranges["edges"], ahead.steps, side="right")] if ranges else 0
    )
    ends = {"low": values - half, "high": values + half} if ranges else {}
    columns = {"steps ahead": ahead.steps, "forecast": values, **ends}
    return [
        ({about["series"]: ahead.names[row]} if about["series"] else {})
        | {about["time"]: moment_said(ahead.times[row])}
        | {name: of[row].item() for name, of in columns.items()}
        for row in range(len(values))
    ]


def _planned_tell(preprocess: dict[str, Any], ahead: Ahead) -> None:
    """`unseen_tell` of what is known of the moments to come."""
    known = preprocess["forecast"].get("known", ())

    def where(row: int) -> str:
        name = ahead.names[row]
        return f"the row of {f'{name!r} of ' if name else ''}{moment_said(ahead.times[row])}"

    unseen_tell(preprocess, [{name: row[name] for name in known} for row in ahead.rows], where)


def main() -> None:
    """Read, forecast, write."""
    parser = argparse.ArgumentParser(description="Forecast with model.onnx.")
    parser.add_argument("--input", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    try:
        preprocess = json.loads((HERE / "preprocess.json").read_text(encoding="utf-8"))
        rows, prefer_comma = read_rows(options.input, preprocess) if options.input else (None, False)
        found = forecast(rows, prefer_comma=prefer_comma)
    except OSError as error:
        sys.exit(unread(error))
    except (ValueError, csv.Error) as error:
        of = f"{options.input.name}: " if options.input else ""
        sys.exit(f"{of}{error}")
    write_csv(found, options.output)


if __name__ == "__main__":
    main()

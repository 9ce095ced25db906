"""`CalibrationPoint`: one program measured on one kind of device; read from and written to JSON and CSV.

The CSV has one row per point and the columns `COLUMNS`; `step_s` holds the repeats joined by `;`, `params` and
`workload` are JSON. The JSON is `{"version": 1, "points": [...]}` with the same fields. Both refuse a bad row by its
number.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from statistics import median
from typing import Any

from scheduler.estimation.device_table import figures_for
from scheduler.estimation.precision import Precision
from scheduler.fields import fields_check, number_read, whole_read
from scheduler.workload import Workload

CALIBRATION_VERSION = 1
LEAST_POINTS = 6
"""Below it no model is fitted: the prior stands."""
LEAST_HELD_OUT = 30
"""From so many on, ranges come from what was held out, and a calibration that ships is no longer looked at."""
MOST, MOST_COUNT = 1e15, 1_000_000_000
"""Larger figures are no measurement, and no database keeps them."""
COLUMNS = (
    "point_id",
    "kind",
    "model_name",
    "count",
    "threads",
    "family",
    "params",
    "batch_size",
    "step_s",
    "peak_bytes",
    "power_w",
    "noise",
    "workload",
    "precision",
)
LATER_COLUMNS = ("precision",)
"""That files from before do not have."""
csv.field_size_limit(1 << 30)


class CalibrationError(ValueError):
    """A calibration dataset cannot be used; where a row is at fault, the message begins with it."""

    def __init__(self, message: str, *, row: int | None = None) -> None:
        super().__init__(message if row is None else f"row {row:,}: {message}")
        self.row = row
        """Counted from 1; None: the file as a whole is at fault."""


@dataclass(frozen=True, kw_only=True)
class CalibrationPoint:
    """Steps of one program on `count` devices of one kind. Raises `ValueError` for figures that cannot be."""

    workload: Workload
    """Of ONE rank: traced at the rows that one rank takes per step."""
    kind: str
    """`cpu` or `cuda`."""
    model_name: str
    step_s: tuple[float, ...]
    """Seconds per optimizer step, one entry per repeat (warm-up left out)."""
    count: int = 1
    """Ranks, one device each."""
    threads: int = 1
    """CPU threads per rank."""
    peak_bytes: float = 0.0
    """Of one rank, above an idle process that has loaded torch; 0: not measured."""
    power_w: float | None = None
    """All devices while it ran; None: not readable."""
    family: str = ""
    """Only for tables of errors: no family is known to the fit."""
    params: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = 0
    """Rows per step over all ranks."""
    noise: float = 0.0
    """Relative spread of visits to the same point at other times; 0: not known."""
    point_id: str = ""
    """Of the sweep plan; what is measured already is recognised by it."""
    precision: str = ""
    """In which its products were computed (`Precision`); empty: of before this was kept, as its workload asks."""

    def __post_init__(self) -> None:
        """Refuse what no measurement gives."""
        if not all(isinstance(name, str) for name in (self.kind, self.model_name, self.family, self.point_id)):
            raise ValueError("kind, model_name, family and point_id must be texts")
        if self.precision and self.precision not in list(Precision):
            raise ValueError(f"precision is {self.precision!r}; it must be one of {', '.join(Precision)}")
        if not self.step_s:
            raise ValueError("no repeat of step_s")
        for value in self.step_s:
            _check("step_s", value, least=0.0, open_end=True)
        _check("peak_bytes", self.peak_bytes, least=0.0)
        _check("noise", self.noise, least=0.0)
        if self.power_w is not None:
            _check("power_w", self.power_w, least=0.0)
        if not all(1 <= value <= MOST_COUNT for value in (self.count, self.threads, self.batch_size)):
            raise ValueError(f"count, threads and batch_size must be from 1 to {MOST_COUNT:,}")
        if not self.kind or not self.model_name:
            raise ValueError("kind and model_name must be given")

    @property
    def typical_s(self) -> float:
        """Median seconds per step."""
        return median(self.step_s)

    @property
    def computed_in(self) -> Precision:
        """In what its products were computed."""
        if self.precision:
            return Precision(self.precision)
        return figures_for(self.kind, self.model_name).computes_in(self.workload.precision)

    @property
    def architecture(self) -> str:
        """What is held out together: the same architecture at any batch size and number of devices."""
        return self.family + json.dumps(dict(self.params), sort_keys=True)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        body = {item.name: getattr(self, item.name) for item in fields(self)}
        return {**body, "params": dict(self.params), "workload": self.workload.to_dict()}

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> CalibrationPoint:
        """Inverse of `to_dict`. Raises `ValueError`."""
        try:
            fields_check(CalibrationPoint, body)
            values = {**body, "workload": Workload.from_dict(body["workload"])}
            values["step_s"] = tuple(number_read({"step_s": value}, "step_s", 0.0) for value in body["step_s"])
            for name in ("count", "threads", "batch_size"):
                values[name] = whole_read(body, name, 1)
            for name in ("peak_bytes", "noise"):
                values[name] = number_read(body, name, 0.0)
            is_measured = body.get("power_w") not in (None, "")
            values["power_w"] = number_read(body, "power_w", 0.0) if is_measured else None
            values["params"] = dict(body.get("params") or {})
            return CalibrationPoint(**values)
        except TypeError as error:
            raise ValueError(f"not a calibration point: {error}") from error


def _check(name: str, value: float, *, least: float, open_end: bool = False) -> None:
    if not math.isfinite(value) or not least <= value <= MOST or (open_end and value == least):
        raise ValueError(f"{name} is {value}; it must be a number {'above' if open_end else 'from'} 0 up to {MOST:g}")


def noise_of(points: Sequence[CalibrationPoint]) -> float:
    """Median relative spread of visits to the same point, over the points visited more than once; 0: there are none."""
    known = [point.noise for point in points if point.noise > 0]
    return median(known) if known else 0.0


def to_json(points: Iterable[CalibrationPoint]) -> str:
    """The dataset as JSON."""
    return json.dumps({"version": CALIBRATION_VERSION, "points": [point.to_dict() for point in points]})


def from_json(text: str) -> list[CalibrationPoint]:
    """Inverse of `to_json`. Raises `CalibrationError` naming the first bad row, counted from 1."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CalibrationError(f"not JSON: {error}") from error
    points = body.get("points") if isinstance(body, dict) else None
    if not isinstance(points, list) or body.get("version") != CALIBRATION_VERSION:
        raise CalibrationError(f"not a calibration dataset of version {CALIBRATION_VERSION}")
    return _points(points)


def to_csv(points: Iterable[CalibrationPoint]) -> str:
    """The dataset as CSV with a header."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS)
    writer.writeheader()
    for point in points:
        writer.writerow(_flat(point))
    return out.getvalue()


def from_csv(text: str) -> list[CalibrationPoint]:
    """Inverse of `to_csv`. Raises `CalibrationError` naming the first bad row, counted from 1 below the header."""
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        missing = set(COLUMNS) - set(LATER_COLUMNS) - set(reader.fieldnames or ())
        rows = [] if missing else list(reader)
    except csv.Error as error:
        # The line below the header; where the header itself is none, no row is at fault.
        raise CalibrationError(f"not CSV: {error}", row=max(0, reader.line_num - 1) or None) from error
    if missing:
        raise CalibrationError(f"columns are missing: {', '.join(sorted(missing))}")
    return _points(rows, _unflat)


def _flat(point: CalibrationPoint) -> dict[str, Any]:
    row = point.to_dict()
    row["step_s"] = ";".join(repr(value) for value in point.step_s)
    row["params"] = json.dumps(row["params"], sort_keys=True)
    row["workload"] = json.dumps(row["workload"])
    row["power_w"] = "" if point.power_w is None else repr(point.power_w)
    return row


def _unflat(row: Mapping[str | None, Any]) -> dict[str, Any]:
    surplus = row.get(None, [])
    if any(surplus) or None in row.values():  # as the reader of CSV fills a short row up
        count = sum(value is not None for name, value in row.items() if name is not None)
        raise ValueError(f"it has {count + len(surplus)} fields, the header {len(row) - (None in row)}")
    values = {name: row[name] for name in COLUMNS if name in row}
    values["step_s"] = [value for value in row["step_s"].split(";") if value]
    values["params"] = _json_cell(row["params"], "params") if row["params"] else {}
    values["workload"] = _json_cell(row["workload"], "workload")
    return values


def _json_cell(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{name} is not JSON: {error}") from error


def _object(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ValueError("it must be an object with the fields of a point")
    return row


def _points(rows: Sequence[Any], read: Any = _object) -> list[CalibrationPoint]:
    points = []
    for number, row in enumerate(rows, 1):
        try:
            points.append(CalibrationPoint.from_dict(read(row)))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            raise CalibrationError(str(error), row=number) from error
    return points

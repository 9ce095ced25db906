"""`DatasetProfile`: what the backend knows of a dataset after one streamed reading. Frozen, JSON both ways."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from codegen.profile.text_form import TextForm
from codegen.profile.time_series import TimeSeries
from codegen.profile.time_span import TimeSpan

PROFILE_VERSION = 1
READING = 10
"""Raise it with every change of what is read of the same bytes: types, packed values, spellings, findings. Bytes that
were packed by an earlier reading are then read anew when they are uploaded again; what is there stays as it is."""
TABLE_FILE = "table.parquet"
"""Packed table: the columns under their own names, typed (numeric float64/int64, category and text as strings,
date as timestamp); with a given split also the column `SPLIT_COLUMN`."""
IMAGES_FILE = "images.parquet"
"""Packed pictures: columns image (encoded bytes), label, name, width, height and, if given, `SPLIT_COLUMN`."""
PROFILE_FILE = "profile.json"
THUMBNAILS_FOLDER = "thumbnails"
EXAMPLES = 5
"""Rows, values or files that a figure or finding names at most."""
SPLIT_COLUMN = "__split__"
"""Values `train`, `val`, `test`, where the upload came with its own split."""

PLAIN_NUMBERS = "every present value is a number"
"""Why most columns are numeric."""
DECIMAL_COMMA = "decimal comma"
"""Spelling of a column of numbers like `1.234,5`."""
THOUSANDS = "thousands"
"""Spelling of a column of numbers like `1,234.5`."""
CLOCK_FULL, CLOCK_HOURS, CLOCK_MINUTES = "h:mm:ss", "h:mm", "m:ss"
"""Spelling of a column of durations or times of day, packed as seconds: what two figures like `19:12` are, if any."""
CLOCKS = (CLOCK_FULL, CLOCK_HOURS, CLOCK_MINUTES)


class DataKind(StrEnum):
    """What a dataset holds."""

    TABLE = "table"
    IMAGES = "images"


class ColumnType(StrEnum):
    """How a column enters training; a person may override the guess."""

    NUMERIC = "numeric"
    CATEGORY = "category"
    TEXT = "text"
    DATE = "date"
    IDENTIFIER = "identifier"
    """Nearly unique, carries no signal: left out."""
    CONSTANT = "constant"
    """One value or none: left out."""


NUMBER_PARTS = {
    ColumnType.NUMERIC: ("",),
    ColumnType.DATE: ("days", "year", "month", "weekday", "hour"),
    ColumnType.TEXT: ("characters", "words"),
}
"""Numbers that a column of a kind gives; an indicator of missing values stands behind the first of them."""


class Severity(StrEnum):
    """How much a warning matters."""

    INFO = "info"
    WARNING = "warning"
    DANGER = "danger"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One finding, what it means for training, and where it is."""

    code: str
    """Stable name, e.g. `missing_values`, `leak_suspect`, `duplicate_rows`, `imbalanced_target`, `broken_picture`."""
    severity: Severity
    message: str
    """What was found, in one sentence."""
    meaning: str
    """What it means for training, and what to do."""
    column: str | None = None
    rows: tuple[int, ...] = ()
    """1-based data rows as packed, the first few; lines of the file where the message says lines."""
    files: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ColumnProfile:
    """One column of a table."""

    name: str
    type: ColumnType
    """In force: the guess, or a person's override."""
    guessed_type: ColumnType
    reason: str
    """Why this type was guessed."""
    missing: int
    unique: int
    """Exact up to a limit, then a lower bound; see `unique_is_exact`."""
    unique_is_exact: bool = True
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None
    std: float | None = None
    quantiles: tuple[float, ...] = ()
    """At 5, 25, 50, 75, 95 percent."""
    histogram_edges: tuple[float, ...] = ()
    histogram_counts: tuple[int, ...] = ()
    top_values: tuple[tuple[str, int], ...] = ()
    examples: tuple[str, ...] = ()
    text_length_mean: float | None = None
    whole_numbers: bool = False
    """Numeric and packed as int64; else numeric columns are float64."""
    singletons: int = 0
    """Values that occur in one row only, as far as `unique_is_exact`."""
    skew: float | None = None
    """Third standardised moment, from a sample of rows."""
    spelling: str = ""
    """How texts of the file were read, where another reading is possible: `decimal comma`, `thousands`, what two
    figures of a duration are, a unit behind these (`thousands, €`), or the format of dates."""
    same_parts: tuple[str, ...] = ()
    """Numbers of a date or text (`NUMBER_PARTS`) that are the same in every row: the hour of plain dates."""
    span: TimeSpan | None = None
    """Of a column of dates, unless every value is missing."""

    @property
    def unit(self) -> str:
        """What its numbers are written with, `€`, `%`, `mm`; `s` for durations, packed as seconds; else empty."""
        if self.type is not ColumnType.NUMERIC:
            return ""
        style, _, unit = self.spelling.partition(", ")
        return "s" if style in CLOCKS else unit if style in (DECIMAL_COMMA, THOUSANDS) else style


@dataclass(frozen=True, kw_only=True)
class ImagesProfile:
    """The pictures of a dataset."""

    width_min: int
    width_max: int
    width_median: int
    height_min: int
    height_max: int
    height_median: int
    channels: int
    """1 if every picture is grey, else 3."""
    formats: tuple[tuple[str, int], ...]
    thumbnails: tuple[tuple[str, str], ...]
    """(class, file name below THUMBNAILS_FOLDER), a few per class."""
    channel_mean: tuple[float, ...] = ()
    """0-1 scale."""
    channel_std: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DatasetProfile:
    """All of it. `target`, `task` are guesses with reasons; the spec decides."""

    kind: DataKind
    rows: int
    """Rows of the table, or good pictures."""
    columns: tuple[ColumnProfile, ...] = ()
    images: ImagesProfile | None = None
    target: str | None = None
    target_reason: str = ""
    task: str | None = None
    """`tabular_classification`, `tabular_regression`, `image_classification`."""
    task_reason: str = ""
    classes: tuple[tuple[str, int], ...] = ()
    """(class, rows) of the guessed target or of the class folders, most frequent first."""
    given_split: tuple[tuple[str, int], ...] = ()
    """(part, rows), where the upload has train/val/test folders."""
    duplicate_rows: int = 0
    source_format: str = ""
    """e.g. `csv; delimiter ','; utf-8; gzip`."""
    form: TextForm | None = None
    """Of a delimited file."""
    source_bytes: int = 0
    packed_bytes: int = 0
    warnings: tuple[Finding, ...] = ()
    """Ranked, worst first."""
    series: tuple[TimeSeries, ...] = ()
    """What may be forecast, the most likely first."""
    version: int = PROFILE_VERSION

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        body = dict(vars(self))  # `asdict` copies every value of every column, one by one
        body["columns"] = tuple(
            {**vars(column), "span": column.span.to_dict() if column.span else None} for column in self.columns
        )
        body["images"] = dict(vars(self.images)) if self.images else None
        body["form"] = dict(vars(self.form)) if self.form else None
        body["warnings"] = tuple(dict(vars(warning)) for warning in self.warnings)
        body["series"] = tuple(dict(vars(series)) for series in self.series)
        return body

    @staticmethod
    def from_dict(body: dict[str, Any]) -> DatasetProfile:
        """Inverse of `to_dict`. Raises `ValueError` for another version or a missing field."""
        if body.get("version") != PROFILE_VERSION:
            raise ValueError(f"profile has version {body.get('version')!r}, this build supports {PROFILE_VERSION}")
        try:
            return _profile(body)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a dataset profile: {error}") from error

    def column(self, name: str) -> ColumnProfile | None:
        """The column of that name, or None."""
        return next((column for column in self.columns if column.name == name), None)


@dataclass(frozen=True, kw_only=True)
class DataProblem:
    """Why a dataset cannot be used: named place, next step."""

    code: str
    message: str
    hint: str
    row: int | None = None
    """1-based line of the file, its header counted."""
    column: str | None = None
    file: str | None = None


class DataError(Exception):
    """The data is at fault; carries the problem that the person is shown."""

    def __init__(self, problem: DataProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """What a person may fix before the data is read."""

    column_types: dict[str, ColumnType] = field(default_factory=dict)
    target: str | None = None
    target_guess: str | None = None
    """One that was guessed before types were changed: it stays, as a guess, while the column can be predicted."""
    delimiter: str | None = None
    encoding: str | None = None
    header: bool | None = None
    """Whether the first line names the columns; None: guessed."""


def _pairs(items: Any) -> tuple[Any, ...]:
    return tuple(tuple(item) for item in items)


def _profile(body: dict[str, Any]) -> DatasetProfile:
    fields = dict(body)
    fields["kind"] = DataKind(body["kind"])
    fields["columns"] = tuple(_column(column) for column in body["columns"])
    fields["images"] = _images(body["images"]) if body["images"] else None
    fields["form"] = TextForm(**body["form"]) if body.get("form") else None  # not in earlier profiles
    fields["classes"] = _pairs(body["classes"])
    fields["given_split"] = _pairs(body["given_split"])
    fields["warnings"] = tuple(
        Finding(
            **{
                **warning,
                "severity": Severity(warning["severity"]),
                "rows": tuple(warning["rows"]),
                "files": tuple(warning["files"]),
            }
        )
        for warning in body["warnings"]
    )
    fields["series"] = tuple(TimeSeries(**series) for series in body.get("series", ()))  # not in earlier profiles
    return DatasetProfile(**fields)


def _column(body: dict[str, Any]) -> ColumnProfile:
    fields = dict(body)
    fields["type"] = ColumnType(body["type"])
    fields["guessed_type"] = ColumnType(body["guessed_type"])
    for name in ("quantiles", "histogram_edges", "histogram_counts", "examples"):
        fields[name] = tuple(body[name])
    fields["top_values"] = _pairs(body["top_values"])
    fields["same_parts"] = tuple(body.get("same_parts", ()))  # not in earlier profiles
    fields["span"] = TimeSpan.from_dict(body["span"]) if body.get("span") else None
    return ColumnProfile(**fields)


def _images(body: dict[str, Any]) -> ImagesProfile:
    fields = dict(body)
    fields["formats"] = _pairs(body["formats"])
    fields["thumbnails"] = _pairs(body["thumbnails"])
    fields["channel_mean"] = tuple(body["channel_mean"])
    fields["channel_std"] = tuple(body["channel_std"])
    return ImagesProfile(**fields)

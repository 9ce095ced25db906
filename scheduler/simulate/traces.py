"""Read traces: jobs with a submission time, some with a deadline. Every error names the row and the column.

Three forms, told apart by their columns: the public ElasticFlow CSVs (`submission_time`, `num_iteration`, ...), the
Philly one with its own columns (`submit_time`, `real_iteration`, `ddl`, ...), and our own job history as CSV or JSON
(`job_id`, `submitted_s`, `run_s`, `count`, ...). A file may be packed with gzip.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FARTHEST_S = 1e11
"""Three thousand years: a time beyond it is no number of seconds, but of milliseconds or nanoseconds since 1970."""
MOST = 1e15
"""Larger figures are no count, and no watts."""


class TraceError(ValueError):
    """A trace or a table that cannot be used; the text names file, row and column."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to run a job, as it was estimated."""

    kind: str
    count: int
    run_s: float
    """Middle of the estimate, of the whole run."""
    power_w: float = 0.0
    """All its devices while it runs; 0: unknown."""
    model: str = ""
    """Of device."""
    mode: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no run."""
        if not (isinstance(self.count, int) and self.count >= 1):
            raise ValueError(f"{self.count} devices")
        if not (math.isfinite(self.run_s) and self.run_s > 0):
            raise ValueError(f"a run of {self.run_s} s")
        if not (math.isfinite(self.power_w) and self.power_w >= 0):
            raise ValueError(f"{self.power_w} W")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(body: Any) -> Way:
        """Inverse of `to_dict`. Raises `ValueError`."""
        try:
            return Way(**body)
        except TypeError as error:  # also of figures that are texts
            raise ValueError("each way needs kind, count and run_s, and may have power_w, model and mode") from error


@dataclass(frozen=True, kw_only=True)
class TraceJob:
    """One job of a trace, as it was submitted."""

    job_id: str
    submitted_s: float
    deadline_s: float | None = None
    model: str = ""
    """Key of a throughput table; empty: `run_s` on `count` devices is all that is known."""
    batch_size: int = 0
    """Global batch; rows per optimizer step."""
    iterations: float = 0.0
    """Optimizer steps of the whole run."""
    count: int = 1
    """Devices that its owner asked for."""
    run_s: float | None = None
    """Time of the whole run on `count` devices, where the trace says it."""
    kind: str = "cuda"
    power_w: float = 0.0
    """All its devices while it runs; 0: unknown."""
    project: str = ""
    priority: int = 0
    ways: tuple[Way, ...] = ()
    """What the estimator told of it, the way that it was submitted with first."""
    where: str = field(default="", compare=False)
    """File and row that it was read from, for errors that show later."""

    def fail(self, column: str, problem: str) -> TraceError:
        """An error that says where: not every fault of a row shows before its job meets tables and pool."""
        return TraceError(f"{self.where or f'job {self.job_id}'}, column {column}: {problem}")


@dataclass(frozen=True)
class _Row:
    """One row, read by column, with errors that say where."""

    file: str
    number: int
    cells: Mapping[str, Any]

    @property
    def where(self) -> str:
        return f"{self.file}, row {self.number:,}"

    def fail(self, column: str, problem: str) -> TraceError:
        return TraceError(f"{self.where}, column {column}: {problem}")

    def text(self, column: str, *, empty_ok: bool = False) -> str:
        value = self.cells.get(column)
        if value is None or str(value).strip() == "":
            if empty_ok:
                return ""
            raise self.fail(column, "nothing is there")
        return str(value).strip()

    def ways(self, column: str) -> tuple[Way, ...]:
        """A JSON list of ways to run, as text or as it is; none where nothing is there."""
        value = self.cells.get(column)
        try:
            listed = json.loads(value) if isinstance(value, str) and value.strip() else value or []
            if not isinstance(listed, list):
                raise ValueError("expected a list of ways")
            return tuple(map(Way.from_dict, listed))
        except ValueError as error:
            raise self.fail(column, str(error)) from None

    def seconds(self, column: str, *, least: float = 0.0) -> float:
        value = self.number_of(column, least=least, most=math.inf)
        if value > FARTHEST_S:
            raise self.fail(column, f"{value:g} is more than {FARTHEST_S:g}; times are in seconds")
        return value

    def number_of(
        self, column: str, *, least: float = -math.inf, most: float = MOST, default: float | None = None
    ) -> float:
        text = self.text(column, empty_ok=default is not None)
        if not text and default is not None:
            return default
        try:
            value = float(text)
        except ValueError:
            raise self.fail(column, f"{text!r} is not a number") from None
        if not math.isfinite(value):
            raise self.fail(column, f"{text} is not finite")
        if value < least:
            raise self.fail(column, f"{text} is below {least:g}")
        if value > most:
            raise self.fail(column, f"{text} is above {most:g}")
        return value

    def whole(self, column: str, *, least: int, default: int | None = None) -> int:
        value = self.number_of(column, least=least, default=None if default is None else float(default))
        if value != int(value):
            raise self.fail(column, f"{value} is not a whole number")
        return int(value)


def _elasticflow(row: _Row) -> TraceJob:
    return TraceJob(
        job_id=row.text("job_id"),
        submitted_s=row.seconds("submission_time"),
        deadline_s=row.seconds("deadline"),
        model=row.text("model_name"),
        batch_size=row.whole("batch_size", least=1),
        iterations=row.number_of("num_iteration", least=1),
        count=row.whole("num_gpu", least=1),
        run_s=row.seconds("duration"),
        where=row.where,
    )


def _philly(row: _Row) -> TraceJob:
    return TraceJob(
        job_id=row.text("job_id"),
        submitted_s=row.seconds("submit_time"),
        deadline_s=row.seconds("ddl"),
        model=row.text("model_name"),
        batch_size=row.whole("batch_size", least=1),
        iterations=row.number_of("real_iteration", least=1),
        count=row.whole("num_gpu", least=1),
        run_s=row.seconds("real_duration"),
        where=row.where,
    )


def _history(row: _Row) -> TraceJob:
    deadline = row.text("deadline_s", empty_ok=True)
    return TraceJob(
        job_id=row.text("job_id"),
        submitted_s=row.seconds("submitted_s"),
        deadline_s=row.seconds("deadline_s") if deadline else None,
        count=row.whole("count", least=1),
        run_s=row.seconds("run_s", least=1e-6),
        kind=row.text("kind", empty_ok=True) or "cuda",
        power_w=row.number_of("power_w", least=0, default=0.0),
        project=row.text("project", empty_ok=True),
        priority=row.whole("priority", least=-1_000_000, default=0),
        ways=row.ways("ways"),
        where=row.where,
    )


_BOTH = {"job_id", "model_name", "batch_size", "num_gpu"}
_FORMS: tuple[tuple[Callable[[_Row], TraceJob], frozenset[str]], ...] = (
    (_philly, frozenset({*_BOTH, "submit_time", "ddl", "real_iteration", "real_duration"})),
    (_elasticflow, frozenset({*_BOTH, "submission_time", "deadline", "num_iteration", "duration"})),
    (_history, frozenset({"job_id", "submitted_s", "count", "run_s"})),
)
"""(reader, columns that it needs)."""


def read_text(path: Path) -> str:
    """A text file, plain or packed with gzip. Raises `TraceError`."""
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except OSError as error:
        raise TraceError(f"{path.name} cannot be read: {error.strerror or error}") from error
    except (EOFError, zlib.error) as error:
        raise TraceError(f"{path.name} is cut short or not gzip: {error}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path.name} is not UTF-8 text") from error


def read_trace(path: Path) -> list[TraceJob]:
    """All jobs of a trace in order of submission. Raises `TraceError`."""
    text = read_text(path)
    rows = _json_rows(path.name, text) if text.lstrip()[:1] in {"[", "{"} else _csv_rows(path.name, text)
    jobs = _parsed(path.name, rows)
    return sorted(jobs, key=lambda job: (job.submitted_s, job.job_id))


def _csv_rows(name: str, text: str) -> list[_Row]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    rows = []
    try:
        if not reader.fieldnames:
            raise TraceError(f"{name} is empty")
        reader.fieldnames = [column.strip() for column in reader.fieldnames]
        if twice := sorted({column for column in reader.fieldnames if reader.fieldnames.count(column) > 1 and column}):
            raise TraceError(f"{name}, row 1: a column appears twice: {', '.join(twice)}")
        for cells in reader:
            # As an editor counts them: lines that hold nothing are lines, too.
            row = _Row(name, reader.line_num, {str(key): value for key, value in cells.items() if key is not None})
            if None in cells:
                raise row.fail(str(reader.fieldnames[-1]), "more cells than columns")
            rows.append(row)
    except csv.Error as error:
        raise TraceError(f"{name}, row {reader.line_num + 1}: not CSV: {error}") from error
    return rows


def _json_rows(name: str, text: str) -> list[_Row]:
    try:
        body = json.loads(text)
    except json.JSONDecodeError as error:
        raise TraceError(f"{name}, line {error.lineno}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise TraceError(f"{name}: not JSON that can be read: it is nested too deep") from error
    listed = body.get("jobs") if isinstance(body, dict) else body
    if not isinstance(listed, list):
        raise TraceError(f"{name}: expected a list of jobs, or an object with `jobs`")
    rows = []
    for number, cells in enumerate(listed, start=1):
        if not isinstance(cells, dict):
            raise TraceError(f"{name}, job {number}: expected an object")
        rows.append(_Row(name, number, cells))
    return rows


def _parsed(name: str, rows: Iterable[_Row]) -> list[TraceJob]:
    rows = list(rows)
    if not rows:
        raise TraceError(f"{name} has no jobs")
    present = frozenset(rows[0].cells)
    parse = next((form for form, columns in _FORMS if columns <= present), None)
    if parse is None:
        nearest = min((columns for _, columns in _FORMS), key=lambda columns: len(columns - present))
        raise TraceError(f"{name}, row 1: lacks the columns {', '.join(sorted(nearest - present))}")
    jobs, seen = [], set[str]()
    for row in rows:
        job = parse(row)
        if job.job_id in seen:
            raise row.fail("job_id", f"{job.job_id} appears twice")
        seen.add(job.job_id)
        jobs.append(job)
    return jobs

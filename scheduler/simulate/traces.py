"""Read traces: jobs with a submission time, some with a deadline. Every error names the row and the column.

Three forms, told apart by their columns: the public ElasticFlow CSVs (`submission_time`, `num_iteration`, ...), the
Philly one with its own columns (`submit_time`, `real_iteration`, `ddl`, ...), and our own job history as CSV or JSON
(`job_id`, `submitted_s`, `run_s`, `count`, ...). Each may name a `project`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scheduler.estimation.values import Basis
from scheduler.simulate.trace_rows import Row, TraceError, read_rows


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
    power_basis: str = ""
    """Of the watts; empty: not told, which is taken for assumed."""

    def __post_init__(self) -> None:
        """Refuse what is no run."""
        if not all(isinstance(name, str) for name in (self.kind, self.model, self.mode)):
            raise ValueError("kind, model and mode are texts")
        if self.power_basis and self.power_basis not in set(Basis):
            raise ValueError(f"{self.power_basis!r} is no basis of watts")
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
            raise ValueError(
                "each way needs kind, count and run_s, and may have power_w, power_basis, model and mode"
            ) from error
        except OverflowError as error:
            raise ValueError("a figure of a way is too large") from error


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
    device_model: str = ""
    """Of device that it ran on; empty: unknown."""
    power_w: float = 0.0
    """All its devices while it runs; 0: unknown."""
    power_basis: Basis = Basis.ASSUMED
    project: str = ""
    priority: int = 0
    ways: tuple[Way, ...] = ()
    """What the estimator told of it, the way that it was submitted with first."""
    where: str = field(default="", compare=False)
    """File and row that it was read from, for errors that show later."""

    def fail(self, column: str, problem: str) -> TraceError:
        """An error that says where: not every fault of a row shows before its job meets tables and pool."""
        return TraceError(f"{self.where or f'job {self.job_id}'}, column {column}: {problem}")


def _ways(row: Row) -> tuple[Way, ...]:
    """A JSON list of ways to run, as text or as it is; none where nothing is there."""
    value = row.cells.get("ways")
    try:
        listed = json.loads(value) if isinstance(value, str) and value.strip() else value or []
        if not isinstance(listed, list):
            raise ValueError("expected a list of ways")
        return tuple(map(Way.from_dict, listed))
    except (ValueError, RecursionError) as error:
        raise row.fail("ways", str(error)) from None


def _basis(row: Row) -> Basis:
    """Of the watts; where nothing is said of it they are taken for assumed."""
    text = row.text("power_basis", empty_ok=True) or Basis.ASSUMED
    try:
        return Basis(text)
    except ValueError:
        raise row.fail("power_basis", f"{text[:20]!r} is none of {', '.join(Basis)}") from None


def _elasticflow(row: Row) -> TraceJob:
    return TraceJob(
        job_id=row.text("job_id"),
        submitted_s=row.seconds("submission_time"),
        deadline_s=row.seconds("deadline"),
        model=row.text("model_name"),
        batch_size=row.whole("batch_size", least=1),
        iterations=row.number_of("num_iteration", least=1),
        count=row.whole("num_gpu", least=1),
        run_s=row.seconds("duration"),
        project=row.text("project", empty_ok=True),
        where=row.where,
    )


def _philly(row: Row) -> TraceJob:
    return TraceJob(
        job_id=row.text("job_id"),
        submitted_s=row.seconds("submit_time"),
        deadline_s=row.seconds("ddl"),
        model=row.text("model_name"),
        batch_size=row.whole("batch_size", least=1),
        iterations=row.number_of("real_iteration", least=1),
        count=row.whole("num_gpu", least=1),
        run_s=row.seconds("real_duration"),
        project=row.text("project", empty_ok=True),
        where=row.where,
    )


def _history(row: Row) -> TraceJob:
    deadline = row.text("deadline_s", empty_ok=True)
    return TraceJob(
        job_id=row.text("job_id"),
        submitted_s=row.seconds("submitted_s"),
        deadline_s=row.seconds("deadline_s") if deadline else None,
        count=row.whole("count", least=1),
        run_s=row.seconds("run_s", least=1e-6),
        kind=row.text("kind", empty_ok=True) or "cuda",
        device_model=row.text("device_model", empty_ok=True),
        power_w=row.number_of("power_w", least=0, default=0.0),
        power_basis=_basis(row),
        project=row.text("project", empty_ok=True),
        priority=row.whole("priority", least=-1_000_000, default=0),
        ways=_ways(row),
        where=row.where,
    )


_BOTH = {"job_id", "model_name", "batch_size", "num_gpu"}
_FORMS: tuple[tuple[str, Callable[[Row], TraceJob], frozenset[str]], ...] = (
    ("a job history", _history, frozenset({"job_id", "submitted_s", "count", "run_s"})),
    (
        "a trace of ElasticFlow",
        _elasticflow,
        frozenset({*_BOTH, "submission_time", "deadline", "num_iteration", "duration"}),
    ),
    ("a trace of Philly", _philly, frozenset({*_BOTH, "submit_time", "ddl", "real_iteration", "real_duration"})),
)
"""(name, reader, columns that it needs). A file with all columns of several is of the last."""


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A trace as it was read."""

    name: str
    """Of the file."""
    jobs: Sequence[TraceJob]
    """In order of submission."""
    columns: frozenset[str]
    extras: Mapping[str, Any] = field(default_factory=dict)
    """What a history in JSON says of its installation, unchecked: `quotas`, `power`."""

    @property
    def is_history(self) -> bool:
        """Whether its jobs are known as they ran, and not by their models."""
        return "run_s" in self.columns


def read_trace(path: Path) -> list[TraceJob]:
    """All jobs of a trace in order of submission. Raises `TraceError`."""
    return list(trace_read(path).jobs)


def trace_read(path: Path) -> Trace:
    """The same with what else the file says. Raises `TraceError`."""
    rows, extras = read_rows(path)
    jobs = sorted(_parsed(path.name, rows), key=lambda job: (job.submitted_s, job.job_id))
    return Trace(name=path.name, jobs=jobs, columns=frozenset(rows[0].cells), extras=extras)


def _parsed(name: str, rows: Sequence[Row]) -> list[TraceJob]:
    if not rows:
        raise TraceError(f"{name} has no jobs")
    present = frozenset(rows[0].cells)
    parse = next((form for _, form, columns in reversed(_FORMS) if columns <= present), None)
    if parse is None:
        raise TraceError(f"{name}, row 1: {_parted_otherwise(present) or _lack(present)}")
    jobs, seen = [], set[str]()
    for row in rows:
        job = parse(row)
        if job.job_id in seen:
            raise row.fail("job_id", f"{job.job_id} appears twice")
        seen.add(job.job_id)
        jobs.append(job)
    return jobs


def _parted_otherwise(present: frozenset[str]) -> str:
    """That another sign than a comma stands between the columns, as some spreadsheets write it; empty: none does."""
    head = next(iter(present)) if len(present) == 1 else ""
    found = {";": "a semicolon", "\t": "a tab"}
    sign = next((words for letter, words in found.items() if letter in head), "")
    return f"{sign} stands between its columns; a comma must" if sign else ""


def _lack(present: frozenset[str]) -> str:
    """What the form lacks of which the largest share is there, of columns that tell it from others."""

    def share(form: tuple[str, Callable[[Row], TraceJob], frozenset[str]]) -> float:
        own = form[2] - {"job_id", "duration"}  # traces of Philly have the latter, too, unread
        return len(own & present) / len(own)

    form, _, columns = max(_FORMS, key=share)
    missing = sorted(columns - present)
    return f"lacks the {'column' if len(missing) == 1 else 'columns'} {', '.join(missing)} of {form}"

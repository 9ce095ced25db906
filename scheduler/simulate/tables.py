"""Throughput tables (iterations/s by model, global batch and device count), and the ways to run a job by them.

A table is `MODEL.csv` with the columns `global_batch_size, 1, 2, 4, ...`; an empty or zero cell cannot be run.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from scheduler.simulate.power import Power
from scheduler.simulate.trace_rows import TraceError, read_text
from scheduler.simulate.traces import TraceJob
from scheduler.types import Option

Rates = Mapping[int, float]
"""Devices -> iterations per second."""


class Tables:
    """Rates by (model, global batch)."""

    def __init__(self, rates: Mapping[tuple[str, int], Rates]) -> None:
        """`rates` hold no zero."""
        self._rates = dict(rates)

    def rates(self, job: TraceJob) -> Rates:
        """What the job's model does on 1, 2, 4 ... devices. Raises `TraceError`."""
        found = self._rates.get((job.model, job.batch_size))
        if found is None:
            batches = self.batches(job.model)
            known = f"batches {batches}" if batches else "no such table"
            column = "batch_size" if batches else "model_name"
            raise job.fail(column, f"no throughput of {job.model} at batch {job.batch_size} ({known})")
        return found

    def batches(self, model: str) -> list[int]:
        """Global batches that the table of a model has; none where there is no table of it."""
        return sorted(batch for known, batch in self._rates if known == model)

    @staticmethod
    def read(folder: Path) -> Tables:
        """All `*.csv` of a folder. Raises `TraceError`."""
        rates: dict[tuple[str, int], Rates] = {}
        files = sorted(folder.glob("*.csv")) + sorted(folder.glob("*.csv.gz"))
        if not files:
            raise TraceError(f"there are no throughput tables (*.csv) in {folder.name}/")
        for path in files:
            model = path.name.removesuffix(".gz").removesuffix(".csv")
            if any(known == model for known, _ in rates):
                raise TraceError(f"{folder.name}/ holds two tables of {model}: {model}.csv and {model}.csv.gz")
            for batch, row in _table(path).items():
                rates[model, batch] = row
        return Tables(rates)


def _table(path: Path) -> dict[int, dict[int, float]]:
    reader = csv.reader(io.StringIO(read_text(path), newline=""))
    try:
        rows = list(reader)
    except csv.Error as error:
        raise TraceError(f"{path.name}, row {reader.line_num}: not CSV: {error}") from error
    if not rows or len(rows[0]) < 2:
        raise TraceError(f"{path.name}, row 1: expected global_batch_size and device counts")
    widths = [
        _whole(cell, "devices", f"{path.name}, row 1, column {column}")
        for column, cell in enumerate(rows[0][1:], start=2)
    ]
    if len(set(widths)) < len(widths):
        raise TraceError(f"{path.name}, row 1: a number of devices appears twice")
    table: dict[int, dict[int, float]] = {}
    for number, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        batch = _whole(row[0], "rows", f"{path.name}, row {number}, column global_batch_size")
        if batch in table:
            raise TraceError(f"{path.name}, row {number}, column global_batch_size: {batch} appears twice")
        if any(map(str.strip, row[len(widths) + 1 :])):
            raise TraceError(f"{path.name}, row {number}: more cells than columns")
        try:
            table[batch] = _cells(widths, row[1:])
        except ValueError as error:
            raise TraceError(f"{path.name}, row {number}: {error}") from None
    return table


def _whole(cell: str, what: str, where: str) -> int:
    """Raises `TraceError`."""
    try:
        found = int(cell)
    except ValueError:
        found = 0
    if found < 1:
        raise TraceError(f"{where}: {cell.strip()[:20]!r} is no number of {what}; from 1 on")
    return found


def _cells(widths: list[int], cells: list[str]) -> dict[int, float]:
    rates = {}
    for width, cell in zip(widths, cells, strict=False):
        rate = float(cell) if cell.strip() else 0.0
        if not math.isfinite(rate) or rate < 0:
            raise ValueError(f"column {width}: {cell} is not a rate")
        if rate:
            rates[width] = rate
    return rates


def options_of(
    job: TraceJob, tables: Tables | None, most: int, power: Power, *, model_name: str = ""
) -> tuple[Option, ...]:
    """Ways to run a job on up to `most` devices; none where the pool is too small. Raises `TraceError`.

    A job with a model may have any width of its table that does not exceed its batch, what its owner asked for first;
    one of our own history runs as it ran.
    """
    if not job.model:
        fixed = as_it_ran(job, power, model_name=model_name)
        return (fixed,) if job.count <= most else ()
    if tables is None:
        raise job.fail("model_name", f"{job.model} needs throughput tables: name their folder")
    rates = {width: rate for width, rate in tables.rates(job).items() if width <= min(most, job.batch_size)}
    order = sorted(rates, key=lambda width: (width != job.count, width))
    return tuple(_option(job.kind, model_name, width, rates[width] / job.iterations, power.busy_w) for width in order)


def as_it_ran(job: TraceJob, power: Power, *, model_name: str = "") -> Option:
    """The one way that a job without a model is known to run. Raises `TraceError`."""
    if not job.run_s:
        raise job.fail("run_s", "neither a model nor a run time")
    watts = job.power_w or job.count * power.busy_w
    return Option(kind=job.kind, count=job.count, model_name=model_name, rate_per_s=1 / job.run_s, power_w=watts)


@lru_cache(maxsize=200_000)
def _option(kind: str, model_name: str, width: int, rate_per_s: float, busy_w: float) -> Option:
    return Option(kind=kind, count=width, model_name=model_name, rate_per_s=rate_per_s, power_w=width * busy_w)

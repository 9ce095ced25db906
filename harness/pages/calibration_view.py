"""What the pages of the estimator show: sweeps, and forecasts against facts; the fits: `harness.pages.fit_view`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.urls import reverse

from harness.calibration import selectors
from harness.calibration.models import OPEN, CalibrationRun, FinishedJobRow
from harness.calibration.reach import reach_words
from harness.calibration.selectors import MEASURES, Accuracy, compared
from harness.pages.charts import chart_card
from harness.pages.fit_view import in_percent
from harness.pages.words import NAME_WORDS

MEASURE_WORDS = {
    "step_s": "Time of a step",
    "run_s": "Time of the run",
    "peak_bytes": "Peak memory",
    "energy_j": "Energy",
}
MEASURE_UNITS = {"step_s": ("s", 1.0), "run_s": ("s", 1.0), "peak_bytes": ("MiB", 2.0**20), "energy_j": ("J", 1.0)}
"""What a measure is drawn in, and how much of its own unit that is."""
DRAWN_MOST = 1000
"""Newest jobs whose points are drawn: of more a picture tells nothing more, and the page would be megabytes. Means and
the files of figures are of all of them."""
_GROUPS = {"family": "Error by family", "kind": "Error by kind"}
"""Columns of a finished job by which its errors are told apart."""


def run_line(run: CalibrationRun) -> dict[str, Any]:
    """One sweep as the page lists it."""
    return {
        "run": run,
        "progress": selectors.run_progress(run),
        "is_open": run.state in OPEN,
        "reach": reach_words(run),
        "percent": round(100 * selectors.run_progress(run).share),
        "last_refusal": run.refused[-1]["problem"] if run.refused else "",
    }


def accuracy_rows(found: list[Accuracy]) -> list[dict[str, Any]]:
    """Lines of the table of all measures."""
    return [{"figures": item, "word": MEASURE_WORDS[item.measure]} for item in found]


def accuracy_charts(rows: list[FinishedJobRow]) -> list[dict[str, Any]]:
    """Forecast against fact of every measure that has both, errors over time, error by family."""
    charts = [card for measure in MEASURES if (card := _agreement(rows, measure, DRAWN_MOST))]
    charts += [card] if (card := _over_time(rows, DRAWN_MOST)) else []
    return charts + [{**card, "csv": reverse("accuracy_chart", args=[card["id"]])} for card in accuracy_groups(rows)]


def accuracy_chart_of(rows: list[FinishedJobRow], name: str) -> list[dict[str, Any]]:
    """The chart of this name alone, with all its figures; empty where there is none."""
    if name in MEASURES:
        return [card] if (card := _agreement(rows, name)) else []
    if name == "over_time":
        return [card] if (card := _over_time(rows)) else []
    return [card for card in accuracy_groups(rows) if card["id"] == name]


def accuracy_groups(
    rows: list[FinishedJobRow], *, shown: Callable[[Accuracy], Accuracy | None] = lambda item: item
) -> list[dict[str, Any]]:
    """Errors by group, as `shown` leaves them; without addresses of their figures."""
    return [card for field, title in _GROUPS.items() if (card := _by(rows, field, title, shown))]


def jobs_count(rows: list[FinishedJobRow]) -> int:
    """Of how many jobs the rows are."""
    return len({selectors.job_told(row) for row in rows})


def _agreement(rows: list[FinishedJobRow], measure: str, most: int | None = None) -> dict[str, Any] | None:
    unit, size = MEASURE_UNITS[measure]
    lines = []
    for row in rows:
        if item := compared(row, measure):
            group = NAME_WORDS.get(row.family, row.family) or "unknown"
            held = "inside the interval" if item.held else "outside the interval"
            actual, mid, low, high = (value / size for value in (item.actual, item.mid, item.low, item.high))
            lines.append([group, actual, mid, held, low, high])
    if not lines:
        return None
    columns = ["family", f"actual, {unit}", f"predicted, {unit}", "interval", f"low, {unit}", f"high, {unit}"]
    csv = reverse("accuracy_chart", args=[measure])
    title = f"{MEASURE_WORDS[measure]}: predicted against actual"
    drawn, told = _newest(lines, most)
    note = f"Both axes are logarithmic.{told}"
    return chart_card(measure, title, "agreement", columns, drawn, csv=csv, note=note)


def _over_time(rows: list[FinishedJobRow], most: int | None = None) -> dict[str, Any] | None:
    lines: list[list[Any]] = []
    errors: list[float] = []
    for row in rows:
        if item := compared(row, "run_s"):
            errors.append(100.0 * abs(item.error))
            last = errors[-selectors.LAST_JOBS :]
            what = f"{NAME_WORDS.get(row.family, row.family)} on {row.count} {NAME_WORDS.get(row.kind, row.kind)}"
            lines.append([row.finished_at, errors[-1], sum(last) / len(last), what])
    if not lines:
        return None
    columns = ["finished", "error %", "mean of the last jobs %", "what"]
    drawn, told = _newest(lines, most)
    note = f"Time of the run. The line is the mean of the last {selectors.LAST_JOBS} jobs.{told}"
    csv = reverse("accuracy_chart", args=["over_time"])
    return chart_card("over_time", "Error over time", "over_time", columns, drawn, csv=csv, note=note, wide=True)


def _newest(lines: list[list[Any]], most: int | None) -> tuple[list[list[Any]], str]:
    """(the newest of them, what to say of the others); all of them where `most` is None."""
    if most is None or len(lines) <= most:
        return lines, ""
    return lines[-most:], f" Drawn are the newest {most:,} of {len(lines):,}; the CSV has all."


def _by(
    rows: list[FinishedJobRow], field: str, title: str, shown: Callable[[Accuracy], Accuracy | None]
) -> dict[str, Any] | None:
    found = selectors.accuracy_by(rows, field).items()
    groups = {name: item for name, group in found if (item := shown(group))}
    if len(groups) < 2:
        return None
    lines = [
        [NAME_WORDS.get(name, name), in_percent(item.mape), in_percent(item.median), in_percent(item.p90), item.jobs]
        for name, item in groups.items()
    ]
    columns = [field, "mean, %", "median, %", "90th percentile, %", "jobs"]
    return chart_card(
        f"by_{field}",
        title,
        "grouped",
        columns,
        lines,
        csv="",
        note="Time of the run.",
        unit="absolute error, %",
        bars=3,
    )

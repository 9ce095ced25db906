"""What the pages of the estimator show: sweeps, fits, errors, and forecasts against facts."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from harness.calibration import selectors
from harness.calibration.models import OPEN, CalibrationRun, DeviceModelRow, FinishedJobRow
from harness.calibration.reach import reach_words
from harness.calibration.selectors import MEASURES, Accuracy, compared
from harness.pages.charts import chart_card
from harness.pages.words import NAME_WORDS

MEASURE_WORDS = {
    "step_s": "Time of a step",
    "run_s": "Time of the run",
    "peak_bytes": "Peak memory",
    "energy_j": "Energy",
}
MEASURE_UNITS = {"step_s": ("s", 1.0), "run_s": ("s", 1.0), "peak_bytes": ("MiB", 2.0**20), "energy_j": ("J", 1.0)}
"""What a measure is drawn in, and how much of its own unit that is."""
_POINT_COLUMNS = ["family", "measured step, s", "predicted step, s", "point", "error, %"]
_FIGURE_COLUMNS = ["mean, %", "median, %", "90th percentile, %", "points"]
_FIGURES = ("mape", "median", "p90")


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


def _percent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share


def model_charts(row: DeviceModelRow) -> list[dict[str, Any]]:
    """The fit of one kind of device as pictures; empty while too little is measured."""
    report = row.report
    if not report:
        return []
    points = [
        [NAME_WORDS.get(family, family), measured_s, predicted_s, point_id, _percent(error)]
        for family, measured_s, predicted_s, error, point_id, *_ in report["points"]
    ]
    residuals = [[family, measured_s, error, point_id] for family, measured_s, _, point_id, error in points]
    floor = _percent(report.get("noise"))
    held_out = "Each point is predicted by a model that has not seen its architecture."
    return [
        chart_card(
            "fit", "Measured against predicted", "agreement", _POINT_COLUMNS, points, csv=_csv(row, "fit"),
            note=f"{held_out} Both axes are logarithmic.",
        ),
        chart_card(
            "residuals", "Errors of the prediction", "residuals", ["family", "measured step, s", "error, %", "point"],
            residuals, csv=_csv(row, "residuals"), floor=floor,
            note="Above 0 the prediction was too high. The dotted lines are the noise of the measurements themselves.",
        ),
        chart_card(
            "families", "Error by family", "grouped", ["family", *_FIGURE_COLUMNS],
            _figure_rows(report["families"], NAME_WORDS), csv=_csv(row, "families"), unit="absolute error, %",
            note=held_out, bars=3,
        ),
        chart_card(
            "methods", "Ours beside the usual methods", "grouped",
            ["method", *_FIGURE_COLUMNS],
            _figure_rows({"ours": report["total"], **report["baselines"]}, {}), csv=_csv(row, "methods"),
            unit="absolute error, %", scale="log", bars=3,
            note="The same points, held out in the same way. The axis is logarithmic.",
        ),
    ]  # fmt: skip


def _figure_rows(groups: dict[str, dict[str, float]], words: dict[str, str]) -> list[list[Any]]:
    return [
        [words.get(name, name.replace("_", " ")), *(_percent(found[part]) for part in _FIGURES), found["n"]]
        for name, found in groups.items()
    ]


def _csv(row: DeviceModelRow, name: str) -> str:
    return f"{reverse('calibration_chart', args=[name])}?{urlencode({'model': row.pk})}"


def accuracy_rows(found: list[Accuracy]) -> list[dict[str, Any]]:
    """Lines of the table of all measures."""
    return [{"figures": item, "word": MEASURE_WORDS[item.measure]} for item in found]


def accuracy_charts(rows: list[FinishedJobRow]) -> list[dict[str, Any]]:
    """Forecast against fact of every measure that has both, errors over time, error by family."""
    charts = [card for measure in MEASURES if (card := _agreement(rows, measure))]
    over_time = _over_time(rows)
    if over_time:
        columns = ["finished", "error %", "mean of the last jobs %", "what"]
        note = f"Time of the run. The line is the mean of the last {selectors.LAST_JOBS} jobs."
        csv = reverse("accuracy_chart", args=["over_time"])
        charts.append(
            chart_card("over_time", "Error over time", "over_time", columns, over_time, csv=csv, note=note, wide=True)
        )
    charts += [card for card in (_by(rows, "family", "Error by family"), _by(rows, "kind", "Error by kind")) if card]
    return charts


def _agreement(rows: list[FinishedJobRow], measure: str) -> dict[str, Any] | None:
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
    return chart_card(measure, title, "agreement", columns, lines, csv=csv, note="Both axes are logarithmic.")


def _over_time(rows: list[FinishedJobRow]) -> list[list[Any]]:
    lines: list[list[Any]] = []
    errors: list[float] = []
    for row in rows:
        if item := compared(row, "run_s"):
            errors.append(100.0 * abs(item.error))
            last = errors[-selectors.LAST_JOBS :]
            what = f"{NAME_WORDS.get(row.family, row.family)} on {row.count} {NAME_WORDS.get(row.kind, row.kind)}"
            lines.append([row.finished_at.isoformat(), errors[-1], sum(last) / len(last), what])
    return lines


def _by(rows: list[FinishedJobRow], field: str, title: str) -> dict[str, Any] | None:
    groups = selectors.accuracy_by(rows, field)
    if len(groups) < 2:
        return None
    lines = [
        [NAME_WORDS.get(name, name), _percent(item.mape), _percent(item.median), _percent(item.p90), item.jobs]
        for name, item in groups.items()
    ]
    columns = [field, "mean, %", "median, %", "90th percentile, %", "jobs"]
    csv = reverse("accuracy_chart", args=[f"by_{field}"])
    return chart_card(
        f"by_{field}",
        title,
        "grouped",
        columns,
        lines,
        csv=csv,
        note="Time of the run.",
        unit="absolute error, %",
        bars=3,
    )

"""The fit of one kind of device as a page shows it: step time, peak memory and power, each with what it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from harness.calibration.models import DeviceModelRow
from harness.calibration.report import LEAST_POINTS
from harness.pages.charts import chart_card
from harness.pages.figures import figure, percent
from harness.pages.words import NAME_WORDS
from scheduler.estimation.calibration import LEAST_HELD_OUT
from scheduler.estimation.device_model import DeviceModel
from scheduler.estimation.device_parts import MemoryModel, Transfer
from scheduler.estimation.values import Basis
from worker.words import counted

_FIGURE_COLUMNS = ["mean, %", "median, %", "90th percentile, %", "points"]
_FIGURES = ("mape", "median", "p90")
_HELD_OUT = "Each point is predicted by a fit that has not seen its architecture."
_OLDER = (
    "This kind of device was fitted before these figures were kept. They appear with its next fit: calibrate on, or "
    "import points."
)
_TOO_LITTLE = (
    f"Too little to judge the fit by: held-out errors are shown from {LEAST_POINTS} points of several architectures on."
)
Report = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One figure that is fitted."""

    name: str
    title: str
    what: str
    unit: str
    size: float
    """How much of the figure's own unit that is."""

    def chart(self, name: str) -> str:
        """Name of one of its charts: those of the step time were there first, and are called by their kind alone."""
        return name if self.name == "step" else f"{self.name}_{name}"

    def titled(self, title: str) -> str:
        """Title of one of its charts."""
        return title if self.name == "step" else f"{self.title}: {title[0].lower()}{title[1:]}"


TIME = Measure(name="step", title="Time of a step", what="step", unit="s", size=1.0)
MEMORY = Measure(name="memory", title="Peak memory", what="peak", unit="MiB", size=2.0**20)
POWER = Measure(name="power", title="Power of one device", what="power", unit="W", size=1.0)


@dataclass(frozen=True, kw_only=True)
class Section:
    """What is said and drawn of one figure."""

    name: str
    title: str
    basis: str
    """`measured`, `modelled` or `assumed`."""
    text: str
    charts: list[dict[str, Any]]
    """Empty where there is nothing to hold against anything; `text` says why."""


def in_percent(share: float | None) -> float | None:
    """A share as a number of percent."""
    return None if share is None else 100.0 * share


def model_sections(row: DeviceModelRow, model: DeviceModel) -> list[Section]:
    """`model`: the one that estimates use, with the watts that an admin entered."""
    report = row.report
    return [
        _section(row, TIME, model.basis, report if "points" in report else {}, _time_text(row, model)),
        _section(
            row, MEMORY, model.memory.basis, report.get("memory", {}), _memory_text(row, model) + _taught(model.memory)
        ),
        _section(row, POWER, model.power.basis, report.get("power", {}), _power_text(row, model)),
    ]


def section_charts(sections: list[Section]) -> list[dict[str, Any]]:
    """All pictures of a kind of device."""
    return [chart for section in sections for chart in section.charts]


def _section(row: DeviceModelRow, measure: Measure, basis: Basis, report: Report, text: str) -> Section:
    charts = _charts(row, measure, report) if report else []
    return Section(name=measure.name, title=measure.title, basis=str(basis), text=text, charts=charts)


def _time_text(row: DeviceModelRow, model: DeviceModel) -> str:
    if "points" in row.report:
        return f"{_errors(row.report)} {_in_range(row.report, 80)} {_rivals(row.report)} {_corrected(model)}".strip()
    if model.n_points and model.transferred:
        return _corrected(model)
    if model.transferred:
        return f"Steps come from a calibration of {_whose(model.transferred)}"
    if model.basis is Basis.ASSUMED:
        return "Nothing to judge yet: steps are assumed from a table of devices."
    return _TOO_LITTLE


def _memory_text(row: DeviceModelRow, model: DeviceModel) -> str:
    report = row.report.get("memory")
    if report:
        wide = "Its upper end is meant to hold 98 %, for a job that runs out of memory is lost."
        return f"{_errors(report)} {_in_range(report, None)} {wide} {_rivals(report)}"
    if model.transferred and not model.n_points:
        return f"Peaks are added up as in a calibration of {_whose(model.transferred)}"
    if model.memory.basis is Basis.ASSUMED:
        return "Nothing to judge yet: too few peaks were measured, and the parts of a program are added up as assumed."
    return _unjudged(row, "memory")


def _taught(memory: MemoryModel) -> str:
    """What finished jobs have to say of it, as a sentence after the others."""
    taught = (memory.lessons, memory.reading)
    count = sum(len(lessons.log_ratios) for lessons in taught)
    if not count:
        return ""
    lost = sum(sum(lessons.ran_out) for lessons in taught)
    out = f", {lost} of which ran out of memory" if lost else ""
    n_left_out = sum(lessons.n_left_out for lessons in taught)
    left = f" Left out as too far off: {n_left_out}." if n_left_out else ""
    return f" Estimates of programs like theirs are corrected by the peaks of {counted(count, 'job')}{out}.{left}"


def _whose(source: Transfer) -> str:
    return (
        f"{source.model_name} ({source.n_points} points) that ships with the harness, with a wide range: there is "
        "nothing here to hold it against. Calibrate to measure yours."
    )


def _corrected(model: DeviceModel) -> str:
    """What few points of its own are good for beside what ships; empty where the model rests on them alone."""
    if not model.transferred:
        return ""
    return (
        f"The points here are {model.n_points} of the {LEAST_HELD_OUT} on one device that a model of its own needs: "
        f"until then they correct a calibration of {model.transferred.model_name} that ships with the harness. "
        "Calibrate with more time: it continues where it stopped."
    )


def _power_text(row: DeviceModelRow, model: DeviceModel) -> str:
    report, power = row.report.get("power"), model.power
    waiting = f", {figure(power.waiting_w, 3)} W while it waits for its host" if power.waiting_w is not None else ""
    idle, busy = f"{figure(power.idle_w, 3)} W idle", f"{figure(power.busy_w, 3)} W busy"
    if power.basis is Basis.ASSUMED:
        why = "No counter of power could be read" if row.n_points else "Nothing was measured"
        nothing = f"{why} on this kind of device at work, so there is nothing to fit"
        if power.idle_basis is Basis.MEASURED:
            return f"{nothing}: {busy}{waiting} are assumed, {idle} were measured. Source: {power.source}."
        return f"{nothing}: {idle}{waiting} and {busy} are assumed. Source: {power.source}."
    one = f"One figure stands for all programs, the median of what the counter told: {busy}."
    if waiting:
        one = f"By the share of a step in which the device computes, from what the counter told: {busy}{waiting}."
    if report:
        return f"{one} {_errors(report)} {_rivals(report)}"
    return f"{one} {_unjudged(row, 'power')}"


def _unjudged(row: DeviceModelRow, name: str) -> str:
    """Why there are no errors of what was measured."""
    return _OLDER if row.report and name not in row.report else _TOO_LITTLE


def _errors(report: Report) -> str:
    total = report["total"]
    off = f"{percent(total['mape'])} on average, {percent(total['p90'])} at the 90th percentile"
    return f"On {total['n']} points that the fit had not seen it is off by {off}."


def _in_range(report: Report, level: int | None) -> str:
    told = f"The {level} % range" if level else "The range"
    return f"{told} held {percent(report['coverage'])} of them."


def _rivals(report: Report) -> str:
    """The best of the usual methods, and whether it does better than ours."""
    rivals = report["baselines"]
    if not rivals:
        return ""
    best = min(rivals, key=lambda name: float(rivals[name]["mape"]))
    error = percent(rivals[best]["mape"])
    if rivals[best]["mape"] < report["total"]["mape"]:
        return f"The best of the usual methods does better here: {best}, {error}."
    return f"The best of the usual methods: {best}, {error}."


def _charts(row: DeviceModelRow, measure: Measure, report: Report) -> list[dict[str, Any]]:
    return [
        _fit(row, measure, report),
        _residuals(row, measure, report),
        _figures(row, measure, "families", "Error by family", report["families"], note=_HELD_OUT),
        _figures(
            row, measure, "methods", "Ours beside the usual methods", {"ours": report["total"], **report["baselines"]},
            note="The same points, held out in the same way. The axis is logarithmic.", scale="log",
        ),
    ]  # fmt: skip


def _fit(row: DeviceModelRow, measure: Measure, report: Report) -> dict[str, Any]:
    what, unit = measure.what, measure.unit
    points = [
        [NAME_WORDS.get(family, family), fact / measure.size, guess / measure.size, point_id, in_percent(error)]
        for family, fact, guess, error, point_id, *_ in report["points"]
    ]
    columns = ["family", f"measured {what}, {unit}", f"predicted {what}, {unit}", "point", "error, %"]
    note = f"{_HELD_OUT} Both axes are logarithmic."
    return _card(row, measure, "fit", "Predicted against measured", "agreement", columns, points, note=note)


def _residuals(row: DeviceModelRow, measure: Measure, report: Report) -> dict[str, Any]:
    rows = [
        [NAME_WORDS.get(family, family), fact / measure.size, in_percent(error), point_id]
        for family, fact, _, error, point_id, *_ in report["points"]
    ]
    columns = ["family", f"measured {measure.what}, {measure.unit}", "error, %", "point"]
    floor, note = in_percent(report.get("noise")), "Above 0 the prediction was too high."
    if floor is not None:
        note += " The dotted lines are the noise of the measurements themselves."
    return _card(
        row, measure, "residuals", "Errors of the prediction", "residuals", columns, rows, note=note, floor=floor
    )


def _figures(
    row: DeviceModelRow, measure: Measure, name: str, title: str, groups: dict[str, dict[str, float]], **more: Any
) -> dict[str, Any]:
    rows = [
        [NAME_WORDS.get(group, group.replace("_", " ")), *(in_percent(found[part]) for part in _FIGURES), found["n"]]
        for group, found in groups.items()
    ]
    first = "family" if name == "families" else "method"
    return _card(
        row, measure, name, title, "grouped", [first, *_FIGURE_COLUMNS], rows, unit="absolute error, %", bars=3, **more
    )


def _card(
    row: DeviceModelRow, measure: Measure, name: str, title: str, kind: str, columns: list[str], rows: list[Any],
    **more: Any,
) -> dict[str, Any]:  # fmt: skip
    named = measure.chart(name)
    csv = f"{reverse('calibration_chart', args=[named])}?{urlencode({'model': row.pk})}"
    return chart_card(named, measure.titled(title), kind, columns, rows, csv=csv, **more)

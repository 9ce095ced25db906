"""results.json as the results tab shows it. Ranks wrote the file: every value is checked before use."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from codegen.spec import Task
from harness.datasets.selectors import dataset_profile
from harness.errors import HarnessError
from harness.estimates.selectors import job_actual, job_energy_basis
from harness.jobs.control.width_request import width_of
from harness.jobs.models import Job
from harness.jobs.selectors import job_checkpoints, job_results
from harness.jobs.series import metric_improved_at
from harness.pages.advice import advice
from harness.pages.figures import column_figures, percent
from harness.pages.job_view import curves_source, spec_value, stopped_early
from harness.pages.named import sample_word
from harness.pages.profile_view import rows_written
from harness.pages.results_read import charts_of, dict_of, number_of, rows_of
from harness.pages.speed import speedup_rows
from harness.pages.target import target_of
from harness.pages.verdict import beats_guessing, verdict
from scheduler.offers.words import energy_words
from worker.merit import larger_is_better
from worker.words import size_words

DRAWN = {"back_test", "confusion", "curve", "histogram", "intervals", "scatter"}
_OF_ROWS = {"samples", "scatter"}
"""Charts that have a line for each row of the data that they show."""
INTERVALS_DRAWN = 12
"""Lines of a chart of intervals: more cannot be told apart."""
ROWS_SHOWN = 200
SAMPLES_SHOWN = 24
SENTENCES_SHOWN = 2000
"""Characters of what a program tells of its model, its split and the ranges of its predictions."""
NARROW_COLUMNS = 5
"""A table of at most so many columns fits beside another chart."""
_METRIC_ORDER = ("accuracy", "balanced_accuracy", "macro_f1", "roc_auc", "log_loss", "r2", "rmse", "mae", "loss")


def results_context(job: Job, body: dict[str, Any]) -> dict[str, Any]:
    """Metrics as a table of parts, charts in the order they were written."""
    metrics = {part: values for part, values in dict_of(body.get("metrics")).items() if isinstance(values, dict)}
    names = {str(name) for values in metrics.values() for name in values}
    order = [name for name in _METRIC_ORDER if name in names] + sorted(names - set(_METRIC_ORDER))
    parts = [part for part in ("train", "val", "test") if part in metrics]
    charts = [_chart(job, chart, index) for index, chart in enumerate(charts_of(body))]
    return {
        "results": body,
        "metric": dict_of(body.get("metric")),
        "others": _others(job),
        "split": _text(body.get("split")),
        "notes": _sentences(body.get("notes")),
        "ranges": _text(dict_of(body.get("ranges")).get("said")),
        "stopped_early": stopped_early(job),
        "verdict": verdict(job.task, body, target_of(job).unit),
        "advice": _advice(job, metrics, body),
        "parts": parts,
        "metric_rows": [(name, [metrics[part].get(name) for part in parts]) for name in order],
        "timing": dict_of(body.get("timing")),
        "took": _took(job),
        "environment": dict_of(body.get("environment")),
        "charts": [chart for chart in charts if chart["kind"] != "samples"] + _speedup_chart(job),
        "sample_charts": [chart for chart in charts if chart["kind"] == "samples"],
        "curves": curves_source(job),
        "world_size": (attempt := job.attempts.order_by("-number").first()) and len(width_of(attempt)),
    }


def _others(job: Job) -> str:
    """Address of the jobs that can be compared with it, the best first: the same data, task, target and metric."""
    target = dict_of(dict_of(job.resolved.get("spec")).get("data")).get("target")
    alike = {
        "dataset": job.dataset_id,
        "task": job.task,
        "target": "" if target == "auto" or job.task == Task.IMAGE_CLASSIFICATION else target,
        "metric": job.metric_name,
        "sort": "-test" if larger_is_better(job.metric_name) else "test",
    }
    return f"{reverse('job_list')}?{urlencode({name: value for name, value in alike.items() if value})}"


def _advice(job: Job, metrics: dict[str, dict[str, Any]], body: dict[str, Any]) -> list[str]:
    """What to do next with this model."""
    best = job_checkpoints(job, removed=True).filter(best=True).order_by("-step").first()
    return advice(
        metrics,
        _per_class(body),
        beats_guessing=beats_guessing(body),
        worst=_worst(body),
        rows=number_of(dict_of(body.get("rows")).get("test")),
        sample=sample_word(job.task),
        best_epoch=best.epoch if best and metric_improved_at(job, best.step) else None,
        epochs=job.epochs,
    )


def _per_class(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The table per class as mappings; empty where there is none."""
    tables = [chart for chart in charts_of(body) if chart.get("id") == "per_class"]
    return [row for table in tables[:1] for row in rows_of(table)]


def _worst(body: dict[str, Any]) -> list[tuple[str, float]]:
    """(name, error) of the rows that a predicted number is off most for; columns of the data may be called so, too."""
    found = []
    for chart in charts_of(body):
        columns = [str(column) for column in chart["columns"]]
        if chart.get("id") != "worst_samples" or not {"name", "error"} <= set(columns):
            continue
        name, error = columns.index("name"), columns.index("error")
        for row in chart["rows"]:
            if isinstance(row, list) and len(row) > max(name, error) and (off := number_of(row[error])) is not None:
                found.append((str(row[name]), off))
    return found


def _took(job: Job) -> list[tuple[str, str]]:
    """What the run cost beside time, where that is known; energy with what it rests on."""
    actual, basis = job_actual(job), job_energy_basis(job)

    def energy(energy_j: float) -> str:
        return f"{energy_words(energy_j)} ({basis})" if basis else energy_words(energy_j)

    words = (("Energy", energy, actual["energy_j"]), ("Memory per rank", size_words, actual["peak_bytes"]))
    return [(name, write(value)) for name, write, value in words if value is not None]


def typical_error(job: Job) -> float | None:
    """By how much the final weights are off on average on the rows of the test, in the unit of the target; None where
    that is not known, as for classes."""
    try:
        metrics = job_results(job).get("metrics")
    except HarnessError:
        return None
    return number_of(dict_of(dict_of(metrics).get("test")).get("mae"))


def _text(value: Any) -> str:
    return value[:SENTENCES_SHOWN] if isinstance(value, str) else ""


def _sentences(value: Any) -> str:
    return _text(" ".join(item for item in value if isinstance(item, str))) if isinstance(value, list) else ""


def _chart(job: Job, chart: dict[str, Any], index: int) -> dict[str, Any]:
    rows = [row for row in chart["rows"] if isinstance(row, list)]
    columns = [str(column) for column in chart["columns"]]
    kind = str(chart.get("kind", "table"))
    if kind == "samples":
        rows = _samples_written(job, columns, rows)
    name = str(chart.get("id", f"chart-{index}"))
    # `row` counts from 0 in the packed file; people know the name, which counts from 1 in theirs.
    first = 1 if kind == "samples" and columns[:2] == ["row", "name"] else 0
    shown = [row[first:] for row in rows]
    return {
        "id": name,
        "anchor": f"chart-{index}",
        "title": str(chart.get("title", name)),
        "kind": kind,
        "drawn": _can_be_drawn(kind, columns) and bool(rows),
        "columns": columns,
        "heads": [(column, _is_numeric(shown, index)) for index, column in enumerate(columns[first:])],
        "numeric": [_is_numeric(shown, index) for index in range(len(columns) - first)],
        "rows": _read_downwards(shown[:ROWS_SHOWN]) if kind in _OF_ROWS else shown[:ROWS_SHOWN],
        "modes": series_names(rows) if kind == "back_test" else [],
        "wide": kind in ("samples", "back_test") or (kind == "table" and len(columns) > NARROW_COLUMNS),
        "more": max(0, len(rows) - ROWS_SHOWN),
        "note": _note(chart, kind, len(rows)),
        "empty": "" if chart.get("note") else "Nothing to show.",  # its note says why there is nothing
        "split": str(chart.get("split") or ""),
        "csv": f"/api/v1/jobs/{job.pk}/charts/{name}.csv",
        "data": {
            "id": name,
            "title": str(chart.get("title", name)),
            "kind": kind,
            "columns": columns,
            "rows": rows[:INTERVALS_DRAWN] if kind == "intervals" else rows,
            "overall": number_of(chart.get("overall")),
        },
        "samples": [_sample(job, columns, row) for row in rows[:SAMPLES_SHOWN]] if kind == "samples" else [],
        "as_pictures": job.task == "image_classification",
    }


def series_names(rows: list[list[Any]]) -> list[str]:
    """Of the series in a chart of forecasts, to choose from; none where there is one."""
    names = list(dict.fromkeys(str(row[0]) for row in rows if row))
    return names if len(names) > 1 else []


def _read_downwards(rows: list[list[Any]]) -> list[list[Any]]:
    """The cells of a table of rows of the data, whose values are compared with each other and looked up there."""
    columns = [column_figures(column) for column in zip_longest(*rows)]
    return [list(row) for row in zip(*columns, strict=True)]


def _can_be_drawn(kind: str, columns: list[str]) -> bool:
    return kind in DRAWN and (kind != "intervals" or ({"low", "high"} <= set(columns) and columns[0] != "low"))


def _note(chart: dict[str, Any], kind: str, rows: int) -> str:
    """What the program says of the chart, and how much of it is drawn."""
    note = str(chart.get("note") or "")
    drawn = (
        f"Drawn are the first {INTERVALS_DRAWN} of {rows:,}." if kind == "intervals" and rows > INTERVALS_DRAWN else ""
    )
    return f"{note} {drawn}".strip()


def _is_numeric(rows: list[list[Any]], index: int) -> bool:
    values = [row[index] for row in rows if index < len(row) and row[index] is not None]
    return bool(values) and all(isinstance(value, int | float) for value in values)


def _samples_written(job: Job, columns: list[str], rows: list[list[Any]]) -> list[list[Any]]:
    """Rows of the data as its page writes them; the `time` of a forecast is the data's column of dates."""
    moment = str(spec_value(job, "data.time")) if job.task == Task.FORECAST else "time"
    names = [moment if column == "time" else column for column in columns]
    try:
        return rows_written(dataset_profile(job.dataset), names, rows)
    except HarnessError:  # a job outlives its dataset's reading
        return rows


def _sample(job: Job, columns: list[str], row: list[Any]) -> dict[str, Any]:
    pairs = list(zip(columns, row, strict=False))
    # A feature may be called `row`, `name` or `confidence` too: ours are known by their places.
    own = {key: value for key, value in pairs[:2] if key in {"row", "name"}}
    share_at = 4 if columns[2:5] == ["true", "predicted", "confidence"] else None
    number, name = own.get("row"), own.get("name")
    is_picture = job.task == "image_classification" and type(number) is int and number >= 0
    return {
        "row": number,
        "name": name,
        "picture": reverse("dataset_row_picture", args=[job.dataset_id, number]) if is_picture else "",
        "values": [
            (key, percent(value) if place == share_at and number_of(value) is not None else value)
            for place, (key, value) in enumerate(pairs)
            if place >= len(own) and value is not None
        ],
    }


def _speedup_chart(job: Job) -> list[dict[str, Any]]:
    """Speed-up over the number of ranks, next to the ideal; no chart while only one number was tried."""
    rows = speedup_rows(job)
    if not rows:
        return []
    lines = [["measured", row["ranks"], row["speedup"], row["samples_per_s"], row["name"]] for row in rows]
    lines += [["ideal", row["ranks"], float(row["ideal"]), None, ""] for row in rows]
    chart = {
        "id": "speedup",
        "title": "Speed-up by ranks",
        "kind": "curve",
        "columns": ["series", "ranks", "speed-up", "samples per second", "run"],
        "rows": lines,
        "note": "The same program, data and model of device: newest run of each number of ranks, this one for its own.",
    }
    return [{**_chart(job, chart, 0), "anchor": "chart-speedup", "csv": reverse("job_speedup", args=[job.pk])}]

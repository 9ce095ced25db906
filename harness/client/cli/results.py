"""`dlh results`: figures per part, the groups of rows on which the model is worst, what its inputs count."""

from __future__ import annotations

from typing import Any

import typer

from harness.client.cli.common import JobArgument, open_client
from harness.client.cli.output import JsonFlag, console, duration, json_print, number, pairs_print, size, table_print
from harness.client.client import Json
from harness.client.transport import segment

LINES_SHOWN = 5
"""Of a chart of intervals; the page and --json have all."""


def results(context: typer.Context, job: JobArgument, as_json: JsonFlag = False) -> None:
    """Final figures per part; --json has every chart with its data."""
    with open_client(context) as client:
        body = client.job_part(job, "results")
        url = f"{client.transport.url}/jobs/{segment(job)}"
        emulated = "" if as_json else client.job(job)["emulated"]
    if as_json:
        json_print(body)
        return
    parts = {part: values for part, values in _dict_of(body.get("metrics")).items() if isinstance(values, dict)}
    keys = list(dict.fromkeys(key for values in parts.values() for key in values))
    lines = ((key.replace("_", " "), *(_figure(values.get(key), 4) for values in parts.values())) for key in keys)
    table_print(("Metric", *parts), lines)
    shown = [_timing_words(key, value) for key, value in _dict_of(body.get("timing")).items()]
    charts = [chart for chart in _list_of(body.get("charts")) if isinstance(chart, dict)]
    titles = ", ".join(str(chart.get("title") or chart.get("id")) for chart in charts)
    console().print()
    for chart in charts:
        _weakest_print(chart)
    ranges = _dict_of(body.get("ranges")).get("said")
    notes = _list_of(body.get("notes"))
    sentences = (("Notes", " ".join(map(str, notes))), ("Split", body.get("split")), ("Ranges", ranges))
    told = [(name, str(said)) for name, said in sentences if said]
    pairs_print([*told, *shown, ("Emulated devices", emulated), ("Charts", titles), ("Page", url)])


def _dict_of(value: Any) -> Json:
    """A program of a person's own may write anything in its place."""
    return value if isinstance(value, dict) else {}


def _list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TIMING_WORDS = {"train_s": "Training time", "samples_per_s": "Throughput", "peak_bytes": "Memory per rank"}


def _timing_words(key: str, value: Any) -> tuple[str, str]:
    """A figure of the run with its unit, which its name carries."""
    if not _is_number(value):
        return _words(key), "" if value is None else str(value)
    if key.endswith("_per_s"):
        what = "samples" if key == "samples_per_s" else ""
        return _TIMING_WORDS.get(key, _words(key)), f"{number(value, 3)} {what}/s"
    if key.endswith("_s"):
        return _TIMING_WORDS.get(key, _words(key.removesuffix("_s"))), duration(value)
    if key.endswith("_bytes"):
        return _TIMING_WORDS.get(key, _words(key.removesuffix("_bytes"))), size(value)
    return _words(key), number(value)


def _words(key: str) -> str:
    return key.replace("_", " ").capitalize()


def _weakest_print(chart: Json) -> None:
    """The first lines of a chart of intervals, the worst groups or the most important inputs, with its notes."""
    columns, rows = chart.get("columns"), chart.get("rows")
    if chart.get("kind") != "intervals" or not (isinstance(columns, list) and isinstance(rows, list) and rows):
        return
    lines = [[_figure(value) for value in row] for row in rows[:LINES_SHOWN] if _fits(row, columns)]
    more = f", {LINES_SHOWN} of {len(rows):,}" if len(rows) > LINES_SHOWN else ""
    names = [str(column).replace("_", " ") for column in columns]
    table_print(names, lines, title=f"{chart.get('title')}{more}")
    console().print()


def _fits(row: Any, columns: list[Any]) -> bool:
    return isinstance(row, list) and len(row) == len(columns)


def _figure(value: Any, digits: int = 3) -> Any:
    return number(value, digits) if _is_number(value) else value

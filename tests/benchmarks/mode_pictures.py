"""The measured pictures of the modes: figures for the page *Modes* of the portal, and SVG for docs/modes.md.

    python -m tests.benchmarks.bench_modes --only ranks,async,pipeline --keep

Each section that was run replaces its own charts; those of other sections stay as they were.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.benchmarks.drawing import Curve, draw, draw_bars
from tests.benchmarks.gather import PROJECT
from tests.benchmarks.timelines import ideal_speedup

FIGURES = PROJECT / "harness/pages/measured/modes.json"
PICTURES = PROJECT / "docs/images"
STAGES = 2
EVEN = "sync shares its rows evenly here; by default it shares them by speed."
NAPS = f"Two ranks. Emulated: one is declared 3 times as slow, and sleeps for two thirds of each step. {EVEN}"
Chart = dict[str, Any]


def charts_of_ranks(body: dict[str, Any]) -> list[Chart]:
    """Throughput and speed-up by number of ranks; memory by mode."""
    names = {"cores": f"{body['cores']} cores", "emulated": f"emulated, {body['slowdown']:g} x slow"}
    rows, ratios = (
        [[names[one["devices"]], one["ranks"], one[value]] for one in body["throughput"]]
        for value in ("rows_per_s", "speedup")
    )
    counts = sorted({one["ranks"] for one in body["throughput"]})
    held = [[f"{one['mode']}, {_processes(one['ranks'])}", one["peak_bytes"] / 2**20, one["parameters"]]
            for one in body["memory"]]  # fmt: skip
    told = "A conv net in mode sync, one-thread ranks."
    if any(one["devices"] == "emulated" for one in body["throughput"]):
        told += (
            f" Emulated: every rank is declared {body['slowdown']:g} times as slow as it is and sleeps the rest of "
            f"each step, so that more ranks than the {body['cores']} cores of this machine can work at the same time. "
            "No figure of an emulated rank is that of a real device."
        )
    return [
        _chart("rank-throughput", "Rows per second by ranks", ["series", "ranks", "rows per second"], rows, told),
        _chart("speedup", "Speed-up by ranks", ["series", "ranks", "speed-up"],
               [*ratios, *(["ideal", count, float(count)] for count in counts)], told),
        _chart("memory-by-mode", "Peak memory of the largest rank, MiB", ["mode", "MiB", "parameters held"], held,
               "A net of wide linear layers with 8.4 million weights and AdamW, above an idle process.", "bars"),
    ]  # fmt: skip


def charts_of_async(body: dict[str, Any]) -> list[Chart]:
    """Throughput and accuracy by time of sync and async."""
    rates = []
    for name, rate in body["rows_per_s"].items():
        mode, slowdown = name.split(" x")
        rates.append([f"{mode}, {'like ranks' if slowdown == '1' else 'one slow (emulated)'}", rate])
    curves = [[mode, at_s, value] for mode, points in body["accuracy_by_s"].items() for at_s, value in points]
    slow = "A small conv net on pictures of digits, two ranks, one of them declared 3 times as slow (emulated)."
    return [
        _chart("async-throughput", "sync and async: rows per second", ["way", "rows per second"], rates,
               NAPS, "bars"),
        _chart("async-accuracy", "sync and async: accuracy by time", ["series", "seconds", "accuracy"], curves,
               f"{slow} On validation rows, after each epoch; both train for the same number of epochs."),
    ]  # fmt: skip


def charts_of_pipeline(body: dict[str, Any]) -> list[Chart]:
    """Speed-up of two stages by number of micro-batches."""
    measured = {int(name[2:]): value for name, value in body["speedup"].items() if name[2:].isdigit()}
    rows = [["measured", count, measured[count]] for count in sorted(measured)]
    rows += [["ideal", count, ideal_speedup(STAGES, count)] for count in sorted(measured)]
    note = (
        "Two equal stages by GPipe against one process. Ideal: K M / (M + K - 1) for K stages and M micro-batches, "
        "where two processes do not slow each other; on this machine they keep "
        f"{body['machine_efficiency']:.2f} of their speed. Too many "
        "micro-batches cost more than the bubble that they save."
    )
    title = "Pipeline: speed-up by micro-batches"
    return [_chart("pipeline-speedup", title, ["series", "micro-batches", "speed-up"], rows, note)]


MAKERS: dict[str, Callable[[dict[str, Any]], list[Chart]]] = {
    "ranks": charts_of_ranks,
    "async": charts_of_async,
    "pipeline": charts_of_pipeline,
}
"""Section of `bench_modes` -> its charts."""


def keep(sections: dict[str, dict[str, Any]], load: float, figures: Path = FIGURES, pictures: Path = PICTURES) -> None:
    """Write the charts of these sections into the figures of the page, and draw them. `load`: of the machine before."""
    known: dict[str, Chart] = {}
    if figures.exists():
        known = {chart["id"]: chart for chart in json.loads(figures.read_text(encoding="utf-8"))["charts"]}
    for name, body in sections.items():
        if name not in MAKERS or "error" in body:
            continue
        for chart in MAKERS[name](body):
            told = {"measured_on": datetime.now(UTC).date().isoformat(), "machine": _machine(body["cores"], load)}
            known[chart["id"]] = {**chart, **told, "command": f'make bench-modes ARGS="--only {name}"'}
            _drawn(pictures / f"modes-{chart['id']}.svg", chart)
    figures.parent.mkdir(parents=True, exist_ok=True)
    figures.write_text(json.dumps({"charts": list(known.values())}, indent=1) + "\n", encoding="utf-8")


def _chart(name: str, title: str, columns: list[str], rows: list[list[Any]], note: str, kind: str = "curve") -> Chart:
    rounded = [[float(f"{value:.4g}") if isinstance(value, float) else value for value in row] for row in rows]
    return {"id": name, "title": title, "kind": kind, "columns": columns, "rows": rounded, "note": note}


def _drawn(path: Path, chart: Chart) -> None:
    if chart["kind"] == "bars":
        draw_bars(path, [(row[0], row[1]) for row in chart["rows"]], what=chart["title"])
        return
    names = list(dict.fromkeys(row[0] for row in chart["rows"]))
    curves = [Curve(name, [(row[1], row[2]) for row in chart["rows"] if row[0] == name]) for name in names]
    draw(path, curves, x_name=chart["columns"][1], y_name=chart["columns"][2])


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} ranks"


def _machine(cores: int, load: float) -> str:
    busy = f", other work on the same cores (load {load:.1f})" if load > 1 else ""
    return f"{cores} CPU cores, {platform.machine()}, no GPU{busy}"

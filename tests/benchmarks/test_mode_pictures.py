"""Sections of `bench-modes` become charts of the page and pictures of the documentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tests.benchmarks.mode_pictures import keep

RANKS: dict[str, Any] = {
    "cores": 2,
    "slowdown": 4.0,
    "throughput": [
        {"devices": device, "ranks": size, "rows_per_s": 100.0 * size, "speedup": float(size)}
        for device in ("cores", "emulated")
        for size in (1, 2)
    ],
    "memory": [{"mode": "pipeline", "ranks": 2, "parameters": 10, "peak_bytes": 3 << 20}],
}
PIPELINE: dict[str, Any] = {
    "cores": 2,
    "speedup": {"single": 1.0, "M=1": 0.9, "M=8": 1.5, "M=8 1f1b": 1.4, "auto": 1.45},
    "machine_efficiency": 0.8,
}


def read(figures: Path) -> dict[str, dict[str, Any]]:
    return {chart["id"]: chart for chart in json.loads(figures.read_text())["charts"]}


def test_a_section_replaces_its_own_charts_and_leaves_the_others(tmp_path: Path) -> None:
    figures = tmp_path / "modes.json"
    keep({"ranks": RANKS, "sync": {"cores": 2}}, 0.5, figures, tmp_path)
    before = read(figures)
    assert set(before) == {"rank-throughput", "speedup", "memory-by-mode"}
    assert ["emulated, 4 x slow", 2, 2.0] in before["speedup"]["rows"] and ["ideal", 2, 2.0] in before["speedup"][
        "rows"
    ]
    keep({"pipeline": PIPELINE, "ranks": {"error": "ended with code 1"}}, 5.5, figures, tmp_path)
    after = read(figures)
    assert set(after) == {*before, "pipeline-speedup"} and after["speedup"] == before["speedup"]
    assert "load 5.5" in after["pipeline-speedup"]["machine"] and "load" not in before["speedup"]["machine"]
    measured = [row[1:] for row in after["pipeline-speedup"]["rows"] if row[0] == "measured"]
    assert measured == [[1, 0.9], [8, 1.5]]
    assert "0.80 of their speed" in after["pipeline-speedup"]["note"]


def test_each_chart_is_drawn(tmp_path: Path) -> None:
    keep({"ranks": RANKS, "pipeline": PIPELINE}, 0.0, tmp_path / "modes.json", tmp_path)
    for name in read(tmp_path / "modes.json"):
        drawn = ElementTree.parse(tmp_path / f"modes-{name}.svg").getroot()
        assert drawn.findall(".//{*}polyline") or drawn.findall(".//{*}rect")

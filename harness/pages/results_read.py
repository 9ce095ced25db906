"""Parts of a results.json as plain values. Ranks wrote the file: what is not of the kind that is asked for is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.pages.figures import is_number


def number_of(value: Any) -> float | None:
    """A finite number."""
    return float(value) if is_number(value) else None


def dict_of(value: Any) -> dict[str, Any]:
    """A mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def charts_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The charts that have rows and columns."""
    charts = body.get("charts")
    return [
        chart
        for chart in (charts if isinstance(charts, list) else ())
        if isinstance(chart, dict) and isinstance(chart.get("rows"), list) and isinstance(chart.get("columns"), list)
    ]


def rows_of(chart: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of a chart by the names of its columns."""
    return (dict(zip(map(str, chart["columns"]), row, strict=False)) for row in chart["rows"] if isinstance(row, list))

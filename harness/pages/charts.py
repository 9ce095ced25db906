"""A chart as the chart card shows it: picture, the same figures as a table, and where the CSV lies."""

from __future__ import annotations

from datetime import datetime
from typing import Any

ROWS_SHOWN = 200


def chart_card(
    name: str,
    title: str,
    kind: str,
    columns: list[str],
    rows: list[list[Any]],
    *,
    csv: str,
    note: str = "",
    wide: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Context of `jobs/chart_card.html`; `options` go to the picture (`scale`, `floor`, `unit`). Moments in `rows` are
    told in the reader's zone by the table, and are ISO texts for picture and CSV."""
    numeric = [is_numeric(rows, index) for index in range(len(columns))]
    drawn = [[value.isoformat() if isinstance(value, datetime) else value for value in row] for row in rows]
    lines = options.get("lines", len(columns) - 1) if kind == "timeline" else 0  # which the picture's axis tells
    heads = [f"{name} ({options['unit']})" if 1 <= at <= lines else name for at, name in enumerate(columns)]
    return {
        "id": name,
        "anchor": f"chart-{name}",
        "title": title,
        "kind": kind,
        "drawn": bool(rows),
        "columns": columns,
        "heads": list(zip(heads, numeric, strict=True)),
        "numeric": numeric,
        "rows": rows[:ROWS_SHOWN],
        "more": max(0, len(rows) - ROWS_SHOWN),
        "empty": "Nothing to show yet.",
        "wide": wide,
        "note": note,
        "split": "",
        "csv": csv,
        "data": {"id": name, "title": title, "kind": kind, "columns": columns, "rows": drawn, **options},
    }


def is_numeric(rows: list[list[Any]], index: int) -> bool:
    """Whether a column holds numbers only."""
    values = [row[index] for row in rows if index < len(row) and row[index] is not None]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)

"""A chart as the chart card shows it: picture, the same figures as a table, and where the CSV lies."""

from __future__ import annotations

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
    """Context of `jobs/chart_card.html`; `options` go to the picture (`scale`, `floor`, `unit`)."""
    numeric = [is_numeric(rows, index) for index in range(len(columns))]
    return {
        "id": name,
        "anchor": f"chart-{name}",
        "title": title,
        "kind": kind,
        "drawn": bool(rows),
        "columns": columns,
        "heads": list(zip(columns, numeric, strict=True)),
        "numeric": numeric,
        "rows": rows[:ROWS_SHOWN],
        "more": max(0, len(rows) - ROWS_SHOWN),
        "wide": wide,
        "note": note,
        "split": "",
        "csv": csv,
        "data": {"id": name, "title": title, "kind": kind, "columns": columns, "rows": rows, **options},
    }


def is_numeric(rows: list[list[Any]], index: int) -> bool:
    """Whether a column holds numbers only."""
    values = [row[index] for row in rows if index < len(row) and row[index] is not None]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)

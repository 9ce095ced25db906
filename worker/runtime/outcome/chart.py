"""One chart as the results page takes it: a table that it draws and a person downloads."""

from __future__ import annotations

from typing import Any

Chart = dict[str, Any]

_METRICS = {"rmse": "RMSE", "mae": "MAE", "r2": "R²", "macro_f1": "macro F1", "roc_auc": "ROC AUC"}


def chart(identity: str, title: str, kind: str, columns: list[str], rows: list[list[Any]], note: str = "") -> Chart:
    """A chart of `rows` below `columns`; `kind` says how it is drawn."""
    return {"id": identity, "title": title, "kind": kind, "columns": columns, "rows": rows, "note": note}


def metric_words(metric: str) -> str:
    """A metric as sentences call it."""
    return _METRICS.get(metric, metric.replace("_", " "))


def figure(value: float) -> str:
    """Of a label, which may be a year: four digits; larger numbers whole."""
    return f"{value:.0f}" if 9999.5 <= abs(value) < 1e15 else f"{value:.4g}"

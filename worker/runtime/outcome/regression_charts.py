"""Charts of a regression: residuals, predicted against true, error by feature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

POINTS = 2000
RESIDUAL_BINS = 40
FEATURE_BINS = 5
FEATURES = 20
Floats = NDArray[np.float64]


def regression_charts(true: Floats, predicted: Floats, rows: NDArray[np.int64], features: pa.Table) -> list[Any]:
    """Residual histogram, scatter, and error by feature; values on the scale of the data."""
    residuals = predicted - true
    return [
        _residuals(residuals),
        _predicted_vs_true(true, predicted, rows),
        _error_by_feature(residuals, features),
    ]


def _residuals(residuals: Floats) -> dict[str, Any]:
    counts, edges = np.histogram(residuals, bins=min(RESIDUAL_BINS, max(5, len(residuals) // 10)))
    rows = [[float(edges[i]), float(edges[i + 1]), int(count)] for i, count in enumerate(counts)]
    note = f"Predicted minus true: mean {_figure(residuals.mean())}, standard deviation {_figure(residuals.std())}."
    return _chart("residuals", "Residuals", "histogram", ["from", "to", "rows"], rows, note)


def _predicted_vs_true(true: Floats, predicted: Floats, rows: NDArray[np.int64]) -> dict[str, Any]:
    keep = np.unique(np.linspace(0, len(true) - 1, min(len(true), POINTS)).round().astype(int))
    points = [[float(true[i]), float(predicted[i]), int(rows[i])] for i in keep]
    note = f"Down-sampled: {len(keep)} of {len(true)} rows." if len(keep) < len(true) else ""
    return _chart("predicted_vs_true", "Predicted against true", "scatter", ["true", "predicted", "row"], points, note)


def _error_by_feature(residuals: Floats, features: pa.Table) -> dict[str, Any]:
    """Mean absolute error and bias within fifths of a number, or of each of the most frequent categories."""
    rows: list[list[Any]] = []
    for name in features.column_names[:FEATURES]:
        column = features[name]
        numeric = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
        groups = _number_groups(column) if numeric else _category_groups(column)
        for label, inside in groups:
            if inside.any():
                errors = residuals[inside]
                rows.append([name, label, int(inside.sum()), float(np.abs(errors).mean()), float(errors.mean())])
    note = "" if features.num_columns <= FEATURES else f"The first {FEATURES} of {features.num_columns} features."
    columns = ["feature", "values", "rows", "mean_absolute_error", "mean_error"]
    return _chart("error_by_feature", "Error by feature", "table", columns, rows, note)


def _number_groups(column: pa.ChunkedArray) -> list[tuple[str, NDArray[np.bool_]]]:
    values = column.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
    known = np.isfinite(values)
    if not known.any():
        return [("missing", ~known)]
    edges = np.unique(np.quantile(values[known], np.linspace(0, 1, FEATURE_BINS + 1)))
    if len(edges) == 1:
        return [(_figure(edges[0]), known), ("missing", ~known)]
    bins = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    groups = [(f"{_figure(edges[i])} to {_figure(edges[i + 1])}", known & (bins == i)) for i in range(len(edges) - 1)]
    return [*groups, ("missing", ~known)]


def _figure(value: float) -> str:
    """Four digits; larger numbers whole."""
    return f"{value:.0f}" if 9999.5 <= abs(value) < 1e15 else f"{value:.4g}"


def _category_groups(column: pa.ChunkedArray) -> list[tuple[str, NDArray[np.bool_]]]:
    texts = pc.fill_null(column.cast(pa.string()), "missing")
    counted = sorted(pc.value_counts(texts).to_pylist(), key=lambda item: -item["counts"])
    array = texts.to_numpy(zero_copy_only=False)
    return [(item["values"], array == item["values"]) for item in counted[:FEATURE_BINS]]


def _chart(identity: str, title: str, kind: str, columns: list[str], rows: list[Any], note: str) -> dict[str, Any]:
    return {"id": identity, "title": title, "kind": kind, "columns": columns, "rows": rows, "note": note}

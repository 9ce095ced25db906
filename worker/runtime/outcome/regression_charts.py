"""Charts of a regression: residuals, predicted against true."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from worker.runtime.outcome.chart import Chart, chart
from worker.words import number_words

POINTS = 2000
RESIDUAL_BINS = 40
Floats = NDArray[np.float64]


def regression_charts(true: Floats, predicted: Floats, rows: NDArray[np.int64]) -> list[Chart]:
    """Residual histogram and scatter; values on the scale of the data."""
    residuals = predicted - true
    return [_residuals(residuals), _predicted_vs_true(true, predicted, rows)]


def _residuals(residuals: Floats) -> Chart:
    bins = min(RESIDUAL_BINS, max(5, len(residuals) // 10))
    if np.ptp(residuals) <= bins * np.spacing(np.abs(residuals).max()):  # no numbers lie between them to part bins
        bins = 1
    counts, edges = np.histogram(residuals, bins) if bins > 1 else ([len(residuals)], _ends(residuals))
    rows = [[float(edges[i]), float(edges[i + 1]), int(count)] for i, count in enumerate(counts)]
    mean, spread = number_words(residuals.mean()), number_words(residuals.std())
    note = f"Predicted minus true: mean {mean}, standard deviation {spread}."
    return chart("residuals", "Residuals", "histogram", ["from", "to", "rows"], rows, note)


def _ends(values: Floats) -> Floats:
    return np.array([values.min(), values.max()])


def _predicted_vs_true(true: Floats, predicted: Floats, rows: NDArray[np.int64]) -> Chart:
    keep = np.unique(np.linspace(0, len(true) - 1, min(len(true), POINTS)).round().astype(int))
    points = [[float(true[i]), float(predicted[i]), int(rows[i])] for i in keep]
    note = f"Down-sampled: {len(keep):,} of {len(true):,} rows." if len(keep) < len(true) else ""
    return chart("predicted_vs_true", "Predicted against true", "scatter", ["true", "predicted", "row"], points, note)

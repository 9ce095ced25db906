"""Ranges around predicted numbers that hold the true value of most rows: split-conformal, by held-out residuals.

Of n absolute residuals the ceil((n + 1) * share)-th smallest is the half width: where new rows are like those n, so
many of them lie inside (Lei et al. 2018, Distribution-free predictive inference for regression; Angelopoulos and Bates
2021, A gentle introduction to conformal prediction). With rows enough each part of the predictions has a half width of
its own, since large values are rarely known as closely as small ones (Boström and Johansson 2020, Mondrian conformal
regressors).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

SHARE_PERCENT = 90
"""Of rows like the held-out ones, so many have their true value in the range."""
LEAST_ROWS = 9
"""Of fewer the residual that is asked for would be larger than all there are."""
PARTS, PART_ROWS = 5, 100
"""Parts of the predictions at most, and the held-out rows that each must have."""
NOTED = "prediction_ranges"
"""Key of preprocess.json, where predictions find them."""
COLUMNS = ("prediction_low", "prediction_high")
STEPS = "steps ahead"
"""By which the half widths of a forecast are told apart; those of other numbers are by the prediction itself."""
Floats = NDArray[np.float64]


def ranges_found(trained: Floats, predicted: Floats, residuals: Floats) -> dict[str, Any]:
    """`{edges, half_widths}` from the residuals of [N] held-out predictions, N >= `LEAST_ROWS`.

    `trained`: predictions of the training rows, whose quantiles part the predictions: held-out rows must not have a say
    in which part they are counted to. Of a forecast both are steps ahead in the place of predictions.
    """
    edges = _edges(trained, predicted)
    place, sizes = np.searchsorted(edges, predicted, side="right"), np.abs(residuals)
    widths = [_quantile(sizes[place == part]) for part in range(len(edges) + 1)]
    return {"edges": edges.tolist(), "half_widths": widths}


def _edges(trained: Floats, predicted: Floats) -> Floats:
    """Between as many parts as have rows enough; none where there is one."""
    for parts in range(PARTS, 1, -1):
        edges: Floats = np.unique(np.quantile(trained, np.arange(1, parts) / parts))
        counts = np.bincount(np.searchsorted(edges, predicted, side="right"), minlength=len(edges) + 1)
        if counts.min() >= PART_ROWS:
            return edges
    return np.empty(0)


def quantile_rank(rows: int) -> int:
    """Of so many residuals, by size, the one that is the half width, from 1 on."""
    return -(-(rows + 1) * SHARE_PERCENT // 100)  # whole numbers: 0.9 is not exact


def _quantile(sizes: Floats) -> float:
    return float(np.sort(sizes)[quantile_rank(len(sizes)) - 1])


def range_limits(
    preprocess: Mapping[str, Any], predicted: ArrayLike, steps: ArrayLike | None = None
) -> dict[str, list[float]]:
    """The ends of the range of each prediction, by the names of their columns; none where no range is noted.

    `steps`: how many steps ahead each is, of a forecast.
    """
    noted = preprocess.get(NOTED)
    if not noted:
        return {}
    values = np.asarray(predicted, np.float64)
    told_by = values if steps is None else np.asarray(steps, np.float64)
    half = np.asarray(noted["half_widths"])[np.searchsorted(noted["edges"], told_by, side="right")]
    return dict(zip(COLUMNS, ((values - half).tolist(), (values + half).tolist()), strict=True))


def range_said(preprocess: Mapping[str, Any]) -> str:
    """What the ranges mean, for people; empty where none is noted."""
    return str((preprocess.get(NOTED) or {}).get("said", ""))

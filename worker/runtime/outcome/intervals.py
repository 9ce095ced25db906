"""Between which values the figures of a part lie for all rows that there could be: 95 % intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from worker.intervals import Interval, Z, mean_share_interval, share_interval

LEAST_ERRORS = 10
"""The spread of fewer errors tells nothing."""
Floats = NDArray[np.float64]


def part_intervals(outputs: Tensor, targets: Tensor, std: float) -> dict[str, list[float]]:
    """(low, high) of accuracy and balanced accuracy, of numbers of rmse and mae, by name; no rows: of none."""
    found: dict[str, Interval] = {}
    if targets.is_floating_point():
        errors = (outputs.squeeze(1).double() - targets.double()).numpy() * std
        if len(errors) >= LEAST_ERRORS:
            found = {"rmse": rmse_interval(errors), "mae": mae_interval(errors)}
    elif len(targets):
        true = targets.numpy()
        hits = np.bincount(true[outputs.argmax(1).numpy() == true], minlength=outputs.shape[1])
        classes = [(int(hit), int(rows)) for hit, rows in zip(hits, np.bincount(true), strict=False) if rows]
        found = {
            "accuracy": share_interval(int(hits.sum()), len(true)),
            "balanced_accuracy": mean_share_interval(classes),
        }
    return {name: [low, high] for name, (_, low, high) in found.items()}


def rmse_interval(errors: Floats) -> Interval:
    """Root mean square error and a 95 % interval of it, from the spread of the squares on a logarithmic scale."""
    squares = errors**2
    mean = float(squares.mean())
    if mean == 0:
        return 0.0, 0.0, 0.0
    away = float(np.exp(Z * squares.std() / len(squares) ** 0.5 / mean / 2))
    return mean**0.5, mean**0.5 / away, mean**0.5 * away


def mae_interval(errors: Floats) -> Interval:
    """Mean absolute error and a 95 % interval of it."""
    sizes = np.abs(errors)
    mean, half = float(sizes.mean()), float(Z * sizes.std() / len(sizes) ** 0.5)
    return mean, max(0.0, mean - half), mean + half

"""Curves of one class against the rest over all thresholds, and the areas under them.

As scikit-learn defines them, whose module of metrics takes longer to load than a small job to train.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def roc_curve(is_class: Mask, score: Floats, *, drop_intermediate: bool) -> tuple[Floats, Floats, Floats]:
    """(false positive rate, true positive rate, threshold), thresholds falling from infinity, where nothing is found.

    Some rows are of the class, others not. `drop_intermediate`: without points in the middle of a straight line.
    Raises `ValueError` for a score that is no number.
    """
    found, wrong, cuts = _counts(is_class, score)
    if drop_intermediate and len(cuts) > 2:
        corner = _with_ends(np.diff(wrong, 2).astype(bool) | np.diff(found, 2).astype(bool))
        found, wrong, cuts = found[corner], wrong[corner], cuts[corner]
    found, wrong, cuts = np.append(0.0, found), np.append(0.0, wrong), np.append(np.inf, cuts)
    return wrong / wrong[-1], found / found[-1], cuts


def precision_recall_curve(is_class: Mask, score: Floats, *, drop_intermediate: bool) -> tuple[Floats, Floats, Floats]:
    """(precision, recall, threshold), thresholds rising; a last point, precision 1 and recall 0, has none.

    `drop_intermediate`: of points of the same recall the first and the last. Else as `roc_curve`.
    """
    found, wrong, cuts = _counts(is_class, score)
    if drop_intermediate and len(cuts) > 2:
        end = _with_ends(np.diff(found[:-1]).astype(bool) | np.diff(found[1:]).astype(bool))
        found, wrong, cuts = found[end], wrong[end], cuts[end]
    precision, recall = found / (found + wrong), found / found[-1]
    return np.append(precision[::-1], 1.0), np.append(recall[::-1], 0.0), cuts[::-1]


def average_precision(is_class: Mask, score: Floats) -> float:
    """Mean of the precisions, each weighed with the recall that it adds."""
    precision, recall, _ = precision_recall_curve(is_class, score, drop_intermediate=False)
    return float(-(np.diff(recall) * precision[:-1]).sum())


def roc_area(is_class: Mask, score: Floats) -> float:
    """Area under the ROC curve: how often a row of the class has a higher score than another row, a tie half so often
    (the Mann-Whitney statistic). Raises `ValueError` for a score that is no number."""
    _check(score)
    others = np.sort(score[~is_class])
    below = sum(np.searchsorted(others, score[is_class], side) for side in ("left", "right"))
    return float(np.mean(below) / 2 / len(others))


def _counts(is_class: Mask, score: Floats) -> tuple[Floats, Floats, Floats]:
    """(rows of the class found, other rows taken for it, threshold) at each score there is, the highest first."""
    _check(score)
    order = np.argsort(-score, kind="stable")
    falling = score[order]
    last = np.append(np.flatnonzero(np.diff(falling)), len(falling) - 1)
    found = np.cumsum(is_class[order])[last].astype(np.float64)
    return found, 1.0 + last - found, falling[last]


def _check(score: Floats) -> None:
    if not np.isfinite(score).all():
        raise ValueError("The model's output for some rows is no number.")


def _with_ends(inner: Mask) -> Mask:
    return np.concatenate([[True], inner, [True]])

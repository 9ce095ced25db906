"""How good the model is on each group of rows, with an interval, the surely worst first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from worker.intervals import share_interval
from worker.runtime.outcome.chart import Chart, chart, metric_words
from worker.runtime.outcome.groups import FEATURES, groups
from worker.runtime.outcome.intervals import LEAST_STRETCHES, Floats, Stretches, enough, rmse_interval
from worker.words import counted, number_words

LEAST_ROWS = 10
"""Smaller groups tell nothing and are left out."""
MOST_ROWS = 100_000
"""Rows that are looked at, evenly spaced: more would only narrow the intervals."""
BY_CHANCE = 0.025
"""Share of groups beyond one end of it by chance."""


def accuracy_by_group(right: NDArray[np.bool_], features: pa.Table) -> Chart:
    """Share of the rows of each group that are named right. `right`: [N], in the order of `features`."""

    def figures(right: NDArray[Any], _: Stretches | None) -> list[Any]:
        return [*share_interval(int(right.sum()), len(right)), len(right)]

    columns = ["accuracy", "low", "high", "rows"]
    return _chart("Accuracy by group", columns, right, features, figures, larger_is_better=True)


def error_by_group(residuals: Floats, features: pa.Table, stretches: Stretches | None = None) -> Chart:
    """Root of the mean square of the residuals of each group, mean size and mean. `residuals`: [N], as `features`.

    `stretches`: of forecasts, over which their errors hang together.
    """

    def figures(errors: Floats, stretches: Stretches | None) -> list[Any]:
        return [*rmse_interval(errors, stretches), len(errors), float(np.abs(errors).mean()), float(errors.mean())]

    columns = ["rmse", "low", "high", "rows", "mean_absolute_error", "mean_error"]
    return _chart("Error by group", columns, residuals, features, figures, stretches, larger_is_better=False)


def _chart(
    title: str,
    columns: list[str],
    judged: NDArray[Any],
    features: pa.Table,
    figures: Callable[[NDArray[Any], Stretches | None], list[Any]],
    stretches: Stretches | None = None,
    *,
    larger_is_better: bool,
) -> Chart:
    """Worst first by the better end of the interval, so that small groups do not lead by chance."""
    rows = len(judged)
    if rows > MOST_ROWS:
        chosen = np.linspace(0, rows - 1, MOST_ROWS).round().astype(np.int64)
        judged, features = judged[chosen], features.take(pa.array(chosen))
        stretches = None if stretches is None else stretches[chosen]
    found = list(groups(features))
    large = [group for group in found if LEAST_ROWS <= group.inside.sum() < len(judged)]
    parts = [(group, None if stretches is None else stretches[group.inside]) for group in large]
    lines = [[group.feature, group.values, *figures(judged[group.inside], own)] for group, own in parts if enough(own)]
    good_end, sign = (4, 1) if larger_is_better else (3, -1)
    lines.sort(key=lambda row: sign * row[good_end])
    whole = figures(judged, None)[0]
    worse = sum(sign * row[good_end] < sign * whole for row in lines)
    note = _note(columns[0], whole, len(lines), worse) if lines else "No group has rows enough to tell."
    if lines and stretches is not None:
        note += (
            f" Errors of neighbouring moments hang together: the intervals are from stretches of time, and groups of "
            f"fewer than {LEAST_STRETCHES} are left out."
        )
    if rows > MOST_ROWS:
        note += f" Of {rows:,} rows {MOST_ROWS:,}, evenly spaced, are looked at."
    if features.num_columns > FEATURES:
        note += f" The first {FEATURES} of {features.num_columns} features."
    made = chart("error_by_feature", title, "intervals", ["feature", "values", *columns], lines, note)
    return {**made, "overall": whole}


def _note(metric: str, whole: float, many: int, worse: int) -> str:
    by_chance = max(1, round(many * BY_CHANCE))
    return (
        "95 % intervals; the groups that are surely worst come first. "
        f"Over all rows the {metric_words(metric)} is {number_words(whole)}. "
        f"{worse} of {counted(many, 'group')} {'is' if worse == 1 else 'are'} worse than that by more than the "
        f"interval; by chance alone it would be about {by_chance}. Groups of fewer than {LEAST_ROWS} rows are left out."
    )

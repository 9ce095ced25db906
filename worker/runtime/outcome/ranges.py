"""The ranges that a run gives its predictions: taken from the validation rows, tried on those of the test."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from worker.intervals import share_interval
from worker.runtime.data import Dataset
from worker.runtime.outcome.charts import predicted_values, true_values
from worker.runtime.outcome.intervals import enough, mean_half, stretches_of
from worker.runtime.ranges import (
    COLUMNS,
    LEAST_ROWS,
    NOTED,
    SHARE_PERCENT,
    STEPS,
    Floats,
    quantile_rank,
    range_limits,
    ranges_found,
)
from worker.words import counted, number_words, share_span_words, share_words

SHARE = SHARE_PERCENT / 100
RARELY = 0.005
"""Fewer test rows inside than come by chance in this share of runs are told."""
FEWER = SHARE - 0.1
"""Of a forecast's test a smaller share inside is told."""


def part_ranges(dataset: Dataset, outputs: dict[str, Tensor]) -> dict[str, Any]:
    """`{share, edges, half_widths, rows, test, said}`; `said` alone, why not, where there are none; of classes nothing.

    `said` is for people. `test`: the share of test rows inside with its interval, where there are such rows.
    """
    if not dataset.train.targets.is_floating_point():
        return {}
    rows = len(dataset.val)
    if rows < LEAST_ROWS:
        there = f"there {'is' if rows == 1 else 'are'} {rows}"
        return {
            "said": f"Predictions come without a range: it takes {LEAST_ROWS} validation rows to find one, and {there}."
        }
    if not all(torch.isfinite(each).all() for each in outputs.values()):
        return {"said": "Predictions come without a range: some of the held-out ones are no finite numbers."}
    parts = {"train": dataset.train, "val": dataset.val, "test": dataset.test}
    predicted = {name: predicted_values(parts[name], each, dataset) for name, each in outputs.items()}
    residuals = predicted["val"] - true_values(dataset.val, dataset)
    steps = {part: table[STEPS].to_numpy() for part, table in dataset.moments.items()}
    told_by = steps or predicted
    found = {"share": SHARE, **ranges_found(told_by["train"], told_by["val"], residuals), "rows": rows}
    found["test"] = _tried(found, predicted["test"], true_values(dataset.test, dataset), dataset.moments.get("test"))
    if steps:
        return {**found, "said": _said_ahead(found)}
    return {**found, "said": _said(found)}


def _tried(found: dict[str, Any], predicted: Floats, true: Floats, moments: pa.Table | None) -> dict[str, Any] | None:
    """How many rows lie inside. `moments`: of a forecast, whose errors hang together: it has an interval where there
    are stretches of time enough."""
    if not len(true):
        return None
    limits = range_limits({NOTED: found}, predicted, None if moments is None else moments[STEPS].to_numpy())
    low, high = (np.array(limits[name]) for name in COLUMNS)
    inside = (low <= true) & (true <= high)
    share, least, most = share_interval(int(inside.sum()), len(true))
    if moments is not None:
        if not enough(stretches := stretches_of(moments)):
            return {"rows": len(true), "inside": share}
        half = mean_half(inside.astype(np.float64), stretches)
        least, most = max(0.0, share - half), min(1.0, share + half)
    return {"rows": len(true), "inside": share, "interval": [least, most]}


def _said(found: dict[str, Any]) -> str:
    least, most = min(found["half_widths"]), max(found["half_widths"])
    wide = f"± {number_words(most, 3)}"
    if len(found["half_widths"]) > 1:
        wide = f"± {number_words(least, 3)} to {wide}, by how large the prediction is"
    return (
        f"A prediction comes with a range that holds the true value for {SHARE_PERCENT} % of rows like the "
        f"{counted(found['rows'], 'validation row')} it was taken from: {wide}.{_test_said(found)} It holds over such "
        "rows taken together, not for each kind of row, and tells nothing of rows unlike them."
    )


def _said_ahead(found: dict[str, Any]) -> str:
    """Of a forecast. Its errors hang together from moment to moment, so nothing is said of chance."""
    least, most = found["half_widths"][0], found["half_widths"][-1]
    wide = f"± {number_words(most, 3)}"
    if len(found["half_widths"]) > 1:
        wide = f"± {number_words(least, 3)} a step ahead, {wide} furthest ahead"
    test = found["test"]
    told = f" Of the values of the test {share_words(test['inside'])} lie inside." if test else ""
    told += " That is fewer: count on less." if test and test["inside"] < FEWER else ""
    return (
        f"A forecast comes with a range that held {SHARE_PERCENT} % of the values of the validation, which lies "
        f"between training and test: {wide}.{told} It holds as long as things go on as they did then."
    )


def _test_said(found: dict[str, Any]) -> str:
    """What the test rows say, and whether that is too few of them for it to be chance."""
    test = found["test"]
    if test is None:
        return " There are no test rows to try it on."
    least, most = test["interval"]
    lie = "lies" if test["rows"] == 1 else "lie"
    told = (
        f" Of {counted(test['rows'], 'test row')} {share_words(test['inside'])} {lie} inside "
        f"(95 % interval {share_span_words(least, most)})."
    )
    if _chance(found["rows"], test["rows"], round(test["inside"] * test["rows"])) < RARELY:
        told += " That is too few for chance: the test rows are unlike those of the validation, so count on less."
    return told


def _chance(held_out: int, tested: int, inside: int) -> float:
    """Probability that at most so many of the tested rows lie inside where they are like the held-out ones.

    The share inside then has a beta distribution, so their number a beta-binomial one (Vovk 2012, Conditional validity
    of inductive conformal predictors). Exact for one width, near for several.
    """
    rank = quantile_rank(held_out)
    least, most = np.arange(tested), np.arange(1, tested + 1)
    ratios = (tested - least) * (rank + least) / (most * (held_out - rank + tested - least))
    logs = np.concatenate(([0.0], np.cumsum(np.log(ratios))))
    weights = np.exp(logs - logs.max())
    return float(weights[: inside + 1].sum() / weights.sum())

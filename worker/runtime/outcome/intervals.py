"""Between which values the figures of a part lie for all rows that there could be: 95 % intervals.

Errors of forecasts hang together: neighbouring moments are foretold from nearly the same rows, and what is off at one
is off at the next. Their spread is taken from the sums over stretches of time instead, each longer than a forecast
(Cameron and Miller 2015, "A practitioner's guide to cluster-robust inference", doi:10.3368/jhr.50.2.317).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from torch import Tensor

from worker.intervals import Interval, Z, mean_share_interval, share_interval, student
from worker.runtime.metrics import says_class
from worker.runtime.ranges import STEPS

LEAST_ERRORS = 10
"""The spread of fewer errors tells nothing."""
LEAST_STRETCHES = 5
STRETCH_HORIZONS = 2
"""Ways ahead that a stretch is long: errors within one way hang together, and its ends are the less of it."""
Floats = NDArray[np.float64]
Stretches = NDArray[np.int64]
"""[N]: a number for each stretch of time that a row is of."""


def stretches_of(moments: pa.Table) -> Stretches:
    """Of the moments [N] that are foretold: of all series together, for they may have a day in common. A stretch ends
    when one of them has had its steps: series whose moments lie between those of others make none shorter."""
    times = moments["time"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    names = moments["series"].cast(pa.string()).combine_chunks()
    series = names.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
    known, places = np.unique(times, return_inverse=True)
    steps = STRETCH_HORIZONS * int(moments[STEPS].to_numpy().max(initial=1))
    stretches: Stretches = np.searchsorted(_ends(series.astype(np.int64), places, len(known), steps), places, "right")
    return stretches


def _ends(series: Stretches, places: Stretches, count: int, steps: int) -> list[int]:
    """Places of moments, of `count`, before which stretches end: none has more than `steps` of a series."""
    keys = np.sort(series * count + places)  # by series, and in time within each
    keys = keys[np.diff(keys, prepend=-1) > 0]
    begins, full = keys[:-steps], keys[steps:]
    is_same = begins // count == full // count
    end_after = np.full(count, count)
    np.minimum.at(end_after, begins[is_same] % count, full[is_same] % count)
    nexts = np.minimum.accumulate(end_after[::-1])[::-1].tolist()  # by where a stretch begins
    ends, place = list[int](), 0
    while place < count and (place := nexts[place]) < count:
        ends.append(place)
    return ends


def enough(stretches: Stretches | None) -> bool:
    """Whether there are so many that their spread tells something; None: rows that are apart."""
    return stretches is None or len(np.unique(stretches)) >= LEAST_STRETCHES


def part_intervals(
    outputs: Tensor, targets: Tensor, std: float, stretches: Stretches | None = None
) -> dict[str, list[float]]:
    """(low, high) of accuracy and balanced accuracy, of numbers of rmse and mae, by name; no rows: of none.

    `stretches`: of forecasts; none where they are few.
    """
    found: dict[str, Interval] = {}
    if targets.is_floating_point():
        errors = (outputs.squeeze(1).double() - targets.double()).numpy() * std
        if len(errors) >= LEAST_ERRORS and enough(stretches):
            found = {"rmse": rmse_interval(errors, stretches), "mae": mae_interval(errors, stretches)}
    elif len(targets):
        true = targets.numpy()
        right = (outputs.argmax(1).numpy() == true) & says_class(outputs).numpy()
        hits = np.bincount(true[right], minlength=outputs.shape[1])
        classes = [(int(hit), int(rows)) for hit, rows in zip(hits, np.bincount(true), strict=False) if rows]
        found = {
            "accuracy": share_interval(int(hits.sum()), len(true)),
            "balanced_accuracy": mean_share_interval(classes),
        }
    return {name: [low, high] for name, (_, low, high) in found.items()}


def rmse_interval(errors: Floats, stretches: Stretches | None = None) -> Interval:
    """Root mean square error and a 95 % interval of it, from the spread of the squares on a logarithmic scale."""
    squares = errors**2
    mean = float(squares.mean())
    if mean == 0:
        return 0.0, 0.0, 0.0
    away = float(np.exp(mean_half(squares, stretches) / mean / 2))
    return mean**0.5, mean**0.5 / away, mean**0.5 * away


def mae_interval(errors: Floats, stretches: Stretches | None = None) -> Interval:
    """Mean absolute error and a 95 % interval of it."""
    sizes = np.abs(errors)
    mean, half = float(sizes.mean()), mean_half(sizes, stretches)
    return mean, max(0.0, mean - half), mean + half


def mean_half(values: Floats, stretches: Stretches | None = None) -> float:
    """Half of the 95 % interval of the mean of values [N]: of rows that are apart, or of `enough` stretches."""
    if stretches is None:
        return float(Z * values.std() / len(values) ** 0.5)
    _, places = np.unique(stretches, return_inverse=True)
    sums = np.bincount(places, values - values.mean())
    return float(student(len(sums) - 1) * (len(sums) / (len(sums) - 1) * (sums**2).sum()) ** 0.5 / len(values))

"""The usual readings of a range test, in the manner of fastai's learning-rate finder: named alternatives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
EMA_DECAY = 0.98
"""Of the debiased running average these readings are made on."""


def running_average(values: Values, decay: float = EMA_DECAY) -> Values:
    """Debiased exponential average: the mean of what came so far, the newest counting most."""
    out, kept = np.empty(len(values)), 0.0
    for place, value in enumerate(values):
        kept = decay * kept + (1.0 - decay) * float(value)
        out[place] = kept / (1.0 - decay ** (place + 1))
    return out


def valley(rates: Values, losses: Values) -> float:
    """The middle of the longest chain of ever smaller averages."""
    values = running_average(losses)
    lengths = np.ones(len(values), dtype=int)
    for place in range(1, len(values)):
        before = lengths[:place][values[:place] > values[place]]
        if before.size:
            lengths[place] = 1 + int(before.max())
    end = int(np.argmax(lengths))
    begin = end - int(lengths[end])
    third = (end - begin) / 3
    return float(rates[max(0, begin + int(third) + int(third / 2))])


def steepest(rates: Values, losses: Values) -> float:
    """Where the average falls fastest per decade."""
    values = running_average(losses)
    slope = np.diff(values) / np.diff(np.log10(rates))
    return float(rates[int(np.argmin(slope))])

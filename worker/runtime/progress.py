"""How fast a run is and when it will end."""

from __future__ import annotations

import statistics
from collections import deque

MEASURING_STEPS = 20
"""Until this many steps have been timed there is no estimate of the end."""
HALF_LIFE_S = 40.0
"""What a stretch of steps counts for in what is foretold of the rest is halved in so much training: a busy host slows
steps for seconds, another device or width for good."""
EVALUATION_COST = 0.4
"""Time of a row in evaluation over its time in training, until the first evaluation has been timed."""


class Meter:
    """Keeps the pace of the last steps and the cost of an epoch's end. Times are given to it, it has no clock."""

    def __init__(self, evaluation_rows_per_training_row: float) -> None:
        self._rates: deque[float] = deque(maxlen=20)
        self._epoch_ends: deque[float] = deque(maxlen=5)
        self._steps_timed = 0
        self._stretches = 0
        self._made, self._took_s = 0.0, 0.0
        """Steps and their seconds, the older the less."""
        self._evaluation_rows = evaluation_rows_per_training_row

    def steps(self, count: int, rows: int, seconds: float) -> None:
        """`count` steps over `rows` rows took `seconds`."""
        if count and seconds > 0:
            self._steps_timed += count
            self._rates.append(rows / seconds)
            kept = 0.5 ** (seconds / HALF_LIFE_S) if self._stretches != 1 else 0.0  # the first one sets things up, too
            self._made, self._took_s = kept * self._made + count, kept * self._took_s + seconds
            self._stretches += 1

    def epoch_end(self, seconds: float) -> None:
        """Evaluation and checkpoint after an epoch took `seconds`."""
        self._epoch_ends.append(seconds)

    @property
    def samples_per_s(self) -> float | None:
        """Median pace of the last stretches, training steps only."""
        return statistics.median(self._rates) if self._rates else None

    def eta_s(self, steps_left: int, steps_per_epoch: int) -> float | None:
        """Seconds to the end of training, the evaluations still to come included; None while measuring."""
        if self._steps_timed < min(MEASURING_STEPS, steps_per_epoch * 2):
            return None
        step_s = self._took_s / self._made
        epochs_left = -(-steps_left // steps_per_epoch)
        if self._epoch_ends:
            epoch_end_s = statistics.median(self._epoch_ends)
        else:
            epoch_end_s = step_s * steps_per_epoch * self._evaluation_rows * EVALUATION_COST
        return steps_left * step_s + epochs_left * epoch_end_s

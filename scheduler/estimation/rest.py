"""How far the rest of a run may be off, by how its own pace has varied so far. Pure.

Steps made so far are cut into windows of about as many each, whose pace varies by spread (of logarithms). What is
foretold of the rest goes by the last of them, and a pace wanders the further the longer it goes on, as a random walk:

    log(upper / middle) = Student * spread * sqrt(1 + left / made)

Spells of load count, since they lengthen the rest as well: spread is by the mean distance from the median, to which one
odd window in eight adds an eighth. Of few steps the estimator's own range counts more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

WINDOWS, LEAST_WINDOWS = 8, 3
WINDOW_LEAST_S = 2.0
"""Marks are told some times a second: a shorter window would vary by that alone."""
TOLD_SHARE = 0.05
"""Own pace and the estimator's range count alike when so many times the steps left have been made."""
LEAST, MOST = 1.03, 3.0
"""Upper end over middle: evaluation and saving come unevenly; beyond the other nothing is known at all."""
NORMAL = math.sqrt(math.pi / 2.0)
"""Standard deviation over mean distance, where errors are normal."""
STUDENT = {2: 1.89, 3: 1.64, 4: 1.53, 5: 1.48, 6: 1.44, 7: 1.41}
"""Degrees of freedom -> the quantile that 9 of 10 lie below: with its counterpart a range that holds 8 of 10."""

Mark = tuple[float, float]
"""(steps made, at this unix time)."""


def rest_slowdown(marks: Sequence[Mark], left: float, told: float) -> float:
    """Upper end over middle of the time that a run's last `left` steps take.

    `marks`: where it stood, in order, on the devices that it has; `told`: the same figure before it had begun.
    """
    told = min(max(told, LEAST), MOST)
    paces = window_paces(marks)
    if len(paces) < LEAST_WINDOWS:
        return told
    made = marks[-1][0] - marks[0][0]
    wander = math.sqrt(1.0 + max(0.0, left) / made)
    shown = STUDENT[len(paces) - 1] * _spread(paces) * wander
    weight = made / (made + TOLD_SHARE * max(0.0, left))
    return min(max(math.exp(min(weight * shown + (1.0 - weight) * math.log(told), 2.0)), LEAST), MOST)


def window_paces(marks: Sequence[Mark]) -> list[float]:
    """Seconds per step in windows of about as many steps each; none where steps or clock went backwards."""
    ends = window_ends(marks)
    paces = [(after[1] - before[1]) / (after[0] - before[0]) for before, after in pairwise(ends)]
    return [pace for pace in paces if pace > 0.0]


def window_ends(marks: Sequence[Mark]) -> list[Mark]:
    """The marks that bound the windows, which tell as much as all of them."""
    if len(marks) < 2:
        return []
    (first, first_s), (last, last_s) = marks[0], marks[-1]
    count = min(WINDOWS, len(marks) - 1, int(max(0.0, last_s - first_s) / WINDOW_LEAST_S))
    if count < 1 or any(after[0] <= before[0] or after[1] < before[1] for before, after in pairwise(marks)):
        return []
    ends, wanted = [marks[0]], 1
    for mark in marks[1:]:
        if mark[0] - first >= (last - first) * wanted / count:
            ends.append(mark)
            wanted = int((mark[0] - first) * count / (last - first)) + 1
    return ends


def _spread(paces: Sequence[float]) -> float:
    """Standard deviation of the logarithms."""
    logs = [math.log(pace) for pace in paces]
    middle = median(logs)
    return NORMAL * sum(abs(value - middle) for value in logs) / len(logs)

"""When the rest of a run is told by its own pace, and how far it may be off, by how that has varied so far. Pure.

Steps made so far are cut into windows of as many whole epochs each, since at the end of one the run evaluates; while
there are few epochs, into parts of them that hold no end of one. Their pace varies by spread (of logarithms). What is
foretold of the rest goes by the last of them, and a pace wanders the further the longer it goes on, as a random walk:

    log(upper / middle) = Student * spread * sqrt(1 + left / made)

Spells of load count, since they lengthen the rest as well: spread is by the mean distance from the median, to which one
odd window in eight adds an eighth. Of few steps the estimator's own range counts more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import median

WINDOWS, LEAST_WINDOWS = 8, 3
"""Of a run; and of an epoch, while there are fewer epochs than the second."""
WINDOW_LEAST_S = 2.0
"""Marks are told some times a second: a shorter window would vary by that alone."""
TOLD_SHARE = 0.05
"""Own pace and the estimator's range count alike when so many times the steps left have been made."""
LEAST, MOST = 1.03, 3.0
"""Upper end over middle: evaluation and saving come unevenly; beyond the other nothing is known at all."""
NORMAL = math.sqrt(math.pi / 2.0)
"""Standard deviation over mean distance, where errors are normal."""
OBSERVED_FROM = 0.02
"""Share of the run that must be done before its own pace counts more than the estimate; without one it does at once."""
OBSERVED_AFTER_S = 300.0
"""So long with the devices that it has, and it does whatever was done: 2 % of a run of a day are half an hour."""
FAR_FACTOR, FAR_AFTER_S = 2.0, 20.0
"""An estimate is given up earlier, after so much training, if the pace is so many times outside of its range: an odd
spell at the start does not make that much, a device that nobody has measured may."""
STUDENT = {2: 1.89, 3: 1.64, 4: 1.53, 5: 1.48, 6: 1.44, 7: 1.41}
"""Degrees of freedom -> the quantile that 9 of 10 lie below: with its counterpart a range that holds 8 of 10."""

Mark = tuple[float, float]
"""(steps made, at this unix time)."""
Window = tuple[float, float]
"""(steps, seconds that they took)."""


def own_pace_counts(done: float, held_s: float, seen: float, told: float, slowdown: float, *, here: float) -> bool:
    """Whether a run's finish is told by the pace that it shows, and not by what was estimated.

    `done`: share of the run, of a resumed one what it did before included, and `here` what it did on the devices that
    it has; `held_s`: how long it has had them; `seen` and `told`: shares of it per second, by its own pace and by the
    estimate (0: none); `slowdown`: upper end over middle of the estimate.
    """
    if not told or done >= OBSERVED_FROM or held_s >= OBSERVED_AFTER_S:
        return True
    is_far = max(seen / told, told / seen) > FAR_FACTOR * max(slowdown, 1.0)
    return is_far and min(held_s, here / seen) >= FAR_AFTER_S


def rest_slowdown(windows: Sequence[Window], left: float, told: float) -> float:
    """Upper end over middle of the time that a run's last `left` steps take.

    `windows`: on the devices that it has, in order; `told`: the same figure before it had begun.
    """
    told = min(max(told, LEAST), MOST)
    if len(windows) < LEAST_WINDOWS:
        return told
    made = sum(steps for steps, _ in windows)
    wander = math.sqrt(1.0 + max(0.0, left) / made)
    shown = STUDENT[min(len(windows) - 1, max(STUDENT))] * _spread(windows) * wander
    weight = made / (made + TOLD_SHARE * max(0.0, left))
    return min(max(math.exp(min(weight * shown + (1.0 - weight) * math.log(told), 2.0)), LEAST), MOST)


def pace_windows(marks: Sequence[Mark], epoch: float) -> list[Window]:
    """Windows of as many whole epochs each, of so many steps; of few epochs parts of them, none of which has the end of
    one in it. `marks`: where the run stood; one that goes back in steps or time, as a clock that is set does, is left
    out.
    """
    known = _onward(marks)
    if len(known) < 2 or not 0.0 < epoch < math.inf:
        return []
    (first, first_s), (last, last_s) = known[0], known[-1]
    whole = (last - first) / epoch
    shortest = WINDOW_LEAST_S * (last - first) / max(last_s - first_s, 1e-9)
    if whole >= LEAST_WINDOWS:
        size = epoch * math.ceil(min(max(whole / WINDOWS, shortest / epoch), whole))
        return [window for window, _ in _cut(known, size, epoch)]
    size = min(max(epoch / WINDOWS, shortest), epoch)
    return [window for window, ends_epoch in _cut(known, size, epoch) if not ends_epoch]


def _cut(marks: Sequence[Mark], size: float, epoch: float) -> Iterator[tuple[Window, bool]]:
    """(a window of about so many steps, whether an epoch ends in it), each from one mark after a bound to another."""
    begin: Mark | None = None
    first = min(size, epoch)
    wanted = math.ceil(marks[0][0] / first) * first
    for mark in marks:
        if mark[0] <= wanted:
            continue
        if begin is not None and mark[1] > begin[1]:
            ends_epoch = math.ceil(mark[0] / epoch) > math.ceil(begin[0] / epoch)
            yield (mark[0] - begin[0], mark[1] - begin[1]), ends_epoch
        begin = mark
        wanted = math.ceil(mark[0] / size) * size


def _onward(marks: Sequence[Mark]) -> list[Mark]:
    known: list[Mark] = []
    for mark in marks:
        if not known or (mark[0] > known[-1][0] and mark[1] >= known[-1][1]):
            known.append(mark)
    return known


def _spread(windows: Sequence[Window]) -> float:
    """Standard deviation of the logarithms of their paces."""
    logs = [math.log(seconds / steps) for steps, seconds in windows]
    middle = median(logs)
    return NORMAL * sum(abs(value - middle) for value in logs) / len(logs)

"""`Stretch`: how much decisions can stretch a run, judged by those that were made so far.

One decision in every slot is the worst there can be, and hours of that never happen. So a plan is charged with the most
decisions that any stretch of about its length has seen until now: an upper end from what happened, as the pool takes
those of its estimates from the runs that ended.
"""

from __future__ import annotations

import math

from scheduler.simulate.rules import Rules

_LENGTHS = 32


class Stretch:
    """The decisions of one replay so far. Mutable."""

    def __init__(self, rules: Rules) -> None:
        """None was made yet."""
        self._rules = rules
        self._times: list[float] = []
        self._first = [0] * _LENGTHS
        """Number of the first decision within the last 2^n slots."""
        self._most = [0] * _LENGTHS
        """The most decisions that any 2^n slots have seen."""

    def add(self, now_s: float) -> None:
        """A decision is made."""
        times = self._times
        times.append(now_s)
        for number in range(_LENGTHS):
            since_s, first = now_s - self._length_s(number), self._first[number]
            while first < len(times) - 1 and times[first] <= since_s:  # a slot may be too short to tell from now
                first += 1
            self._first[number] = first
            self._most[number] = max(self._most[number], len(times) - first)

    def slowdown(self, left_s: float) -> float:
        """Upper end over middle of what is left of a run that has to end within `left_s`.

        That of one decision in every slot where nothing so long was seen yet.
        """
        worst = self._rules.slowdown
        number = _number(left_s / self._rules.slot_s)
        if number is None or not self._times or self._times[-1] - self._times[0] < self._length_s(number):
            return worst
        share = self._most[number] * self._rules.event_s / self._length_s(number)
        return min(worst, 1.0 / (1.0 - share)) if share < 1.0 else worst

    def _length_s(self, number: int) -> float:
        return self._rules.slot_s * 2.0**number


def _number(slots: float) -> int | None:
    """The power of two at or below; none where a run has less than a slot, or no end."""
    if not 1.0 <= slots < 2.0**_LENGTHS:
        return None
    return int(math.log2(slots))

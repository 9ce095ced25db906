"""Whether this host works for others just now: a loop that always is the same, timed again and again.

A virtual core is often one of two threads of a real one. While the other one works for a neighbour, everything here
takes 1.2 to 1.6 times as long, for half a second to some seconds at a time, and no counter tells of it; a loop of
Python does. (Copies of memory would tell of busy caches too, but by as much of what this process left in them.)

Quiet is what comes near the quickest survey: some readings in a row, of which the lower quartile counts, since now and
then a single one is far quicker than all others. A process that lives for seconds may see nothing but noise, so it is
given what a longer-lived one has seen lately: a host that is slower from now on (another clock, another machine) must
not be called loud for ever.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

ROUNDS = 20_000
"""Of the loop: half a millisecond."""
LOUD = 1.25
"""Times the quickest survey: above, the host is loud. Where nothing disturbs, readings vary by some 10 %."""
SURVEY = 50
"""Readings of a survey."""
SURVEYS_KEPT = 60
"""Some minutes of a sweep: a loud spell lasts for seconds."""
PATIENCE_S = 10.0
"""That a measurement spends on waiting for a quiet host; then all counts."""


@dataclass
class Gauge:
    """Takes readings, and knows the quickest survey."""

    quickest_s: float = math.inf
    patience_s: float = PATIENCE_S
    clock: Callable[[], float] = field(default=time.perf_counter, repr=False)

    def reading_s(self) -> float:
        """Seconds of the loop now."""
        began_s = self.clock()
        total = 0
        for number in range(ROUNDS):
            total += number
        return self.clock() - began_s

    def survey_s(self) -> float:
        """The quickest survey: one now, and all before."""
        readings_s = sorted(self.reading_s() for _ in range(SURVEY))
        self.quickest_s = min(self.quickest_s, readings_s[SURVEY // 4])
        return self.quickest_s

    def is_quiet(self) -> bool:
        """By a reading now, against the surveys so far. The first look makes one."""
        if math.isinf(self.quickest_s):
            self.survey_s()
        return self.reading_s() <= LOUD * self.quickest_s


@dataclass
class Surveys:
    """What a process that lives long has seen of its host lately."""

    gauge_of: Callable[[], Gauge] = Gauge
    _seen_s: deque[float] = field(default_factory=lambda: deque(maxlen=SURVEYS_KEPT))

    def quickest_s(self) -> float:
        """Of a survey now and those before."""
        self._seen_s.append(self.gauge_of().survey_s())
        return min(self._seen_s)

"""Rows that could not be dealt with: each is tried again ever later, so that they keep no others waiting."""

from __future__ import annotations

import time
from collections.abc import Callable

FIRST_S, MOST_S = 60.0, 6 * 3600.0
"""From a failed try to the next one: twice as long each time."""
FORGET_S = 2 * MOST_S
"""One that was due so long ago and not tried is asked for no more."""


class Tried:
    """Of one control process: after a restart everything is tried once more."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` in seconds."""
        self._clock = clock
        self._until: dict[str | int, tuple[float, float]] = {}
        """Key -> (when it is due, how long it waited for that)."""

    def resting(self) -> list[str | int]:
        """Keys whose time has not come yet."""
        now_s = self._clock()
        for key, (due_s, _) in list(self._until.items()):
            if due_s + FORGET_S < now_s:
                self._until.pop(key, None)
        return [key for key, (due_s, _) in list(self._until.items()) if due_s > now_s]

    def failed(self, key: str | int) -> None:
        """Let it rest, twice as long as before."""
        _, waited_s = self._until.get(key, (0.0, 0.0))
        wait_s = min(2 * waited_s, MOST_S) if waited_s else FIRST_S
        self._until[key] = (self._clock() + wait_s, wait_s)

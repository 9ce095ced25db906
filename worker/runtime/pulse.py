"""Signs of life during long work that is not a step: reading pictures, predicting rows.

A run of which nothing is heard for minutes is ended (`worker.watchdog`). Whoever works through many rows says after
each block of them that it gets on.
"""

from __future__ import annotations

import time
from collections.abc import Callable

BEAT_S = 10.0
"""It is told this often at most."""


class Pulse:
    """Of this process; silent until somebody listens."""

    def __init__(self) -> None:
        self._tell: Callable[..., None] = lambda **_: None
        self._told_s = float("-inf")

    def listen(self, tell: Callable[..., None]) -> None:
        """From now on `tell` is called while work continues; with `waits=1` where others are waited for."""
        self._tell = tell

    def beat(self, *, waits: bool = False) -> None:
        """A piece of work is done, or (`waits`) another rank is waited for."""
        now_s = time.monotonic()
        if now_s - self._told_s >= BEAT_S:
            self._told_s = now_s
            self._tell(**({"waits": 1} if waits else {}))


pulse = Pulse()

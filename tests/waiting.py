"""How tests wait: for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PAUSE_S = (0.02, 0.5)
"""Between two questions, first and at most: one to a portal takes some 15 ms of the processor, here and there."""
T = TypeVar("T")


def wait_for(condition: Callable[[], T], timeout_s: float = 180.0, what: str = "what is waited for") -> T:
    """Ask until the condition gives something true, ever less often; fail with `what` after `timeout_s`."""
    end_s, pause_s = time.monotonic() + timeout_s, PAUSE_S[0]
    while not (value := condition()):
        assert time.monotonic() < end_s, f"{what}: not within {timeout_s:.0f} s"
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.3, PAUSE_S[1])
    return value

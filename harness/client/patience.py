"""Outlast a portal that is away: nobody who waits for something is to begin anew because it was restarted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from harness.client.errors import ApiError, ClientError, Unreachable

Answer = TypeVar("Answer")
AWAY_S = 300.0
"""So long a portal that has answered may be away, restart, or not read its database."""
AGAIN_S = 2.0
Away = Callable[[ClientError], None]
"""Told, once each time, of a portal that does not answer any more."""


def untold(_: ClientError) -> None:
    """For who need not know."""


def outlasting(
    ask: Callable[[], Answer], away: Away = untold, *, for_s: float = AWAY_S,
    sleep: Callable[[float], None] = time.sleep, clock_s: Callable[[], float] = time.monotonic,
) -> Answer:  # fmt: skip
    """What is answered, be it after the portal was away; `ask` changes nothing. Raises its error after `for_s`."""
    end_s, is_told = clock_s() + for_s, False
    while True:
        try:
            return ask()
        except (ApiError, Unreachable) as error:
            if (isinstance(error, ApiError) and error.status < 500) or clock_s() >= end_s:
                raise
            if not is_told:
                away(error)
            is_told = True
        sleep(AGAIN_S)

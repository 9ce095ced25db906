"""Renews what a process holds for a limited time (the turn to schedule, a lease), while it works."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from django.db import connection


class LeaseRenewer:
    """A thread: `with LeaseRenewer(renew, every_s=2.0, most=300)`. A process that is stopped renews nothing.

    It ends by itself when `renew` says that there is nothing left to keep, and after `most` times without `got_on`: who
    works on one thing for longer hangs, though its clock still ticks.
    """

    def __init__(self, renew: Callable[[], bool], *, every_s: float, most: int) -> None:
        """Nothing is renewed before the block is entered."""
        self._renew, self._every_s, self._most = renew, every_s, most
        self._count = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._renew_on, name="lease-renewer", daemon=True)

    def got_on(self) -> None:
        """Another thing was done."""
        self._count = 0

    def __enter__(self) -> LeaseRenewer:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; nothing is renewed any more."""
        self._done.set()
        self._thread.join()

    def _renew_on(self) -> None:
        try:
            while self._count < self._most:
                self._count += 1
                if self._done.wait(self._every_s) or not self._renew():
                    return
        finally:
            connection.close()

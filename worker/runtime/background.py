"""One piece of work at a time beside the training."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Background:
    """A thread for a piece of work. Its error is raised where its end, or the next piece, is waited for."""

    def __init__(self) -> None:
        self.took_s = 0.0
        """Time of the last piece that has ended."""
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Wait for the piece before, then begin this one. Raises what that one raised."""
        self.wait()
        self._thread = threading.Thread(target=self._run, args=(work,), name="background")
        self._thread.start()

    def wait(self, limit_s: float | None = None) -> None:
        """Until the work has ended, or `limit_s` has passed. Raises what it raised, once."""
        if self._thread is not None:
            self._thread.join(limit_s)
            if self._thread.is_alive():
                return
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def check(self) -> None:
        """Raise what ended work has raised; does not wait."""
        if self._thread is not None and not self._thread.is_alive():
            self.wait()

    def _run(self, work: Callable[[], None]) -> None:
        started_s = time.monotonic()
        try:
            work()
        except BaseException as error:
            self._error = error
        self.took_s = time.monotonic() - started_s

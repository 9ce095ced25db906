"""What a supervisor is told by signals: that its node is shut down, or that nobody wants its run any more."""

from __future__ import annotations

import signal
import time

from worker.cause import Seen
from worker.home import stop_save_s


class Leaving:
    """SIGTERM: the node is shut down, the ranks may save first. SIGINT: end at once; of no use any more."""

    def __init__(self, seen: Seen) -> None:
        self._seen, self._save_s, self._by_s = seen, stop_save_s(), float("inf")
        self.is_dropped = False
        """Nobody wants the run any more."""

    def listen(self) -> None:
        """From now on."""
        signal.signal(signal.SIGTERM, self.shut_down)
        signal.signal(signal.SIGINT, self._drop)

    def shut_down(self, *_: object) -> None:
        """The node is, from now on."""
        self._by_s = min(self._by_s, time.monotonic() + self._save_s)
        self._seen.leaves = True

    def _drop(self, *_: object) -> None:
        self.is_dropped = self._seen.shut_down = True

    @property
    def is_overdue(self) -> bool:
        """Whether the node waits no longer."""
        return time.monotonic() >= self._by_s

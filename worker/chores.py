"""What a node does beside its tasks, for ever: each in a thread of its own, so that no heartbeat waits for it."""

from __future__ import annotations

import threading

from worker.scratch import tidy
from worker.transfer.ahead import ahead
from worker.transfer.scrub import scrub

CHORES = (tidy, scrub, ahead)


def begin() -> None:
    """Start them all."""
    for chore in CHORES:
        threading.Thread(target=chore, name=chore.__name__, daemon=True).start()

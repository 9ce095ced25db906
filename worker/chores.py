"""What a node does beside its tasks, for ever: each in a thread of its own, so that no heartbeat waits for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from worker.readers.pool import keep
from worker.scratch import tidy
from worker.transfer.ahead import ahead
from worker.transfer.scrub import scrub
from worker.transfer.settling import settle
from worker.unanswered import left_answer

CHORES = (left_answer, tidy, scrub, ahead, settle, keep)
AGAIN_S = 60.0
_log = logging.getLogger(__name__)


def begin() -> None:
    """Start them all."""
    for chore in CHORES:
        threading.Thread(target=kept_up, args=(chore,), name=chore.__name__, daemon=True).start()


def kept_up(chore: Callable[[], None], again_s: float = AGAIN_S) -> None:
    """Do it; what breaks it, such as a machine that has no thread left, ends it for a while alone."""
    while True:
        try:
            return chore()
        except Exception:
            _log.exception("%s broke, and begins again in %.0f s", chore.__name__, again_s)
        time.sleep(again_s)

"""The beat of a control process: a thread of that process.

Celery's own (`-B`) is a second process, which nobody starts again: where only that one was killed, or a full disk took
the file of its schedule, control looked well and did nothing any more. A thread lives and dies with its process.
"""

from __future__ import annotations

import logging
import threading
import time
from datetime import UTC, datetime, timedelta

from celery import Celery
from celery.beat import Scheduler, Service
from celery.schedules import schedule

LOOP_S = 1
"""Longest sleep of the beat; how long it takes to end."""
AGAIN_AFTER_S = 2.0
_log = logging.getLogger(__name__)


def every(period_s: float) -> schedule:
    """Due once in so many seconds, by a clock that nobody sets.

    By the wall clock, as Celery counts, nothing would be due after that was set back until it had caught up.
    """
    return schedule(timedelta(seconds=period_s), nowfun=_steady_now)


def _steady_now() -> datetime:
    return datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=time.monotonic())


class Beat:
    """Sends what is due by the app's `beat_schedule`, whatever breaks, until it is told to end."""

    def __init__(self, app: Celery) -> None:
        """Nothing is sent before `start`."""
        self._app = app
        self._ended = threading.Event()
        self._service: Service | None = None
        self._thread = threading.Thread(target=self._run, name="beat", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Send nothing more."""
        self._ended.set()
        if self._service is not None:
            self._service.stop()

    def _run(self) -> None:
        self._app.set_current()
        while not self._ended.is_set():
            # What is due is counted from the start of the process: no file, no second truth.
            self._service = Service(self._app, max_interval=LOOP_S, scheduler_cls=Scheduler)
            try:
                self._service.start()
            except Exception:
                _log.exception("the beat broke off; it begins again in %.0f s", AGAIN_AFTER_S)
                self._ended.wait(AGAIN_AFTER_S)

"""Work that may take minutes, beside control's tasks: of those two are done at once, and runs wait for them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.db import connections

_log = logging.getLogger(__name__)


class Beside:
    """One kind of work. At most one thread of this process is at it, and nobody's wish is lost."""

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        self._name, self._work = name, work
        self._lock = threading.Lock()
        self._is_wished = self._is_going_on = False

    def begin(self) -> None:
        """Have it done by a thread of its own; where one is at it, once more after that. Raises `RuntimeError`."""
        with self._lock:
            self._is_wished = True
            if self._is_going_on:
                return
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
            self._is_going_on = True  # not where the machine has no thread left: who wishes it next tries again

    def _run(self) -> None:
        while self._takes_wish():
            try:
                self._work()
            except Exception:
                _log.exception("%s broke off; the next round begins anew", self._name)
            finally:
                connections.close_all()

    def _takes_wish(self) -> bool:
        with self._lock:
            self._is_going_on, self._is_wished = self._is_wished, False
            return self._is_going_on

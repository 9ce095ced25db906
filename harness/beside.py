"""Work that may take minutes, beside control's tasks: of those two are done at once, and runs wait for them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.db import connections

_log = logging.getLogger(__name__)


class Beside:
    """One kind of work. At most so many threads of this process are at it, and nobody's wish is lost."""

    def __init__(self, name: str, work: Callable[[], object], *, at_most: int = 1) -> None:
        self._name, self._work, self._at_most = name, work, at_most
        self._lock = threading.Lock()
        self._is_wished, self._threads = False, 0

    @property
    def is_going_on(self) -> bool:
        """Whether a thread is at it."""
        return self._threads > 0

    def begin(self) -> None:
        """Have it done by a thread of its own; where enough are at it, once more after that. Raises `RuntimeError`."""
        with self._lock:
            self._is_wished = True
            if self._threads >= self._at_most:
                return
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
            self._threads += 1  # not where the machine has no thread left: who wishes it next tries again

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
            takes, self._is_wished = self._is_wished, False
            self._threads -= not takes
            return takes

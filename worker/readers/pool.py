"""The waiting readers of this node: kept ready, handed out once each, replaced at leftovers' priority.

`DLH_READERS` says how many wait; 0: none, and every program is read by a process that is started for it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

from worker import host_limits
from worker.programs import ProgramCall
from worker.readers.reader import Reader, Reading, reader_start
from worker.readers.slot import Unfit, Unlinkable, slots_remove
from worker.sandbox import Completed, SandboxError
from worker.scratch import ABANDONED_AFTER_S

COUNT = 1
"""Unless `DLH_READERS` says otherwise."""
COUNT_MOST = 16
LOOK_S = 30.0
"""Whether those that wait still live, and memory is left for them, is looked at this often."""
READY_S = 600.0
"""That one may take where others leave it little of the processor."""
AGAIN_S, AGAIN_MOST_S = 30.0, 3600.0
"""After one that could not be started, or ended by itself; each time after twice as long."""
LEAVE_S = 5.0
"""That one which is being started may take to be given up."""
FREE_BYTES, LEAST_FREE_BYTES = 2 << 30, 1 << 30
"""Memory of the host: with less free none is started; with less than the second those that wait are ended."""
_log = logging.getLogger("worker.readers")


class Readers:
    """One thread keeps them (`keep`), others have programs read by them (`read`)."""

    def __init__(self, count: int, started: Callable[[], Reader] = reader_start) -> None:
        self._count, self._started = count, started
        self._waiting: list[Reader] = []
        self._lock, self._looking = threading.Lock(), threading.Lock()
        self._wake, self._closed = threading.Event(), threading.Event()
        self._held = self._failures = 0
        self._not_before_s = 0.0
        self._swept = False
        """Whether what a killed agent left is gone."""

    def keep(self) -> None:
        """Have as many as wanted wait, until `close`. They end with the thread that does this."""
        if self._count > 0 and not self._swept:
            slots_remove()
            self._swept = True
        while self._count > 0 and not self._closed.is_set():
            self._wake.clear()
            with self._looking:
                wait_s = self._look_s()
            self._wake.wait(wait_s)

    def _look_s(self) -> float:
        """Look once, start one at most; seconds until the next look."""
        self._tidy()
        with self._lock:
            enough = len(self._waiting) >= self._count
            held = self._held > 0
        if enough or held or host_limits.memory_available_bytes() < FREE_BYTES:
            return LOOK_S
        if (wait_s := self._not_before_s - time.monotonic()) > 0:
            return min(LOOK_S, wait_s)
        self._start()
        return 0.0

    def _tidy(self) -> None:
        """End those that died, have waited for as long as what is held to be left over, or whose memory is needed."""
        low = host_limits.memory_available_bytes() < LEAST_FREE_BYTES
        oldest_s = time.monotonic() - ABANDONED_AFTER_S / 2
        with self._lock:
            gone = [one for one in self._waiting if low or one.started_s < oldest_s or not one.is_alive()]
            self._waiting = [one for one in self._waiting if one not in gone]
        for reader in gone:
            if not reader.is_alive():
                self._failed(reader.last_words())
            reader.close()

    def _start(self) -> None:
        try:
            reader = self._started()
        except (SandboxError, OSError) as error:
            self._failed(str(error))
            return
        if not reader.comes_ready(READY_S, self._closed.is_set):
            if not self._closed.is_set():
                self._failed(reader.last_words())
            reader.close()
            return
        with self._lock:
            closed = self._closed.is_set()
            if not closed:
                self._waiting.append(reader)
        if closed:
            reader.close()

    def _failed(self, why: str) -> None:
        wait_s = min(AGAIN_MOST_S, AGAIN_S * 2.0**self._failures)
        self._failures += 1
        self._not_before_s = time.monotonic() + wait_s
        _log.warning("no reader of programs waits: %s. Programs are read more slowly; next try in %.0f s", why, wait_s)

    def read(self, call: ProgramCall, reading: Reading, called_off: Callable[[], bool]) -> Completed | None:
        """Have it read by one that waits. None where none does, or the files or limits are not for one: nothing of the
        program was run."""
        began_s = time.monotonic()
        reader = self._take(call)
        if reader is None:
            return None
        try:
            reader.ask(reading)
        except Unfit as error:
            self._not_used(reader, error)
            return None
        except OSError as error:
            self._failed(str(error))
            reader.close()
            self._wake.set()
            return None
        self._failures = 0
        try:
            return reader.to_its_end(max(0.0, call.timeout_s - (time.monotonic() - began_s)), called_off)
        finally:
            self._wake.set()

    def _take(self, call: ProgramCall) -> Reader | None:
        """One that lives and is shut in as asked; nobody else gets it."""
        with self._lock:
            for reader in self._waiting:
                if reader.is_alive() and reader.fits(call):
                    self._waiting.remove(reader)
                    return reader
        return None

    def _not_used(self, reader: Reader, error: Unfit) -> None:
        """It has been told nothing, and waits on; unless no data can ever be put before it."""
        if isinstance(error, Unlinkable):
            _log.warning("programs are read without readers that wait: data cannot be linked (%s)", error)
            self.close()
        with self._lock:
            if not self._closed.is_set():
                self._waiting.append(reader)
                return
        reader.close()

    @contextmanager
    def held(self) -> Iterator[None]:
        """None is started meanwhile: steps are being timed."""
        with self._lock:
            self._held += 1
        try:
            yield
        finally:
            with self._lock:
                self._held -= 1
            self._wake.set()

    def waiting(self) -> tuple[Reader, ...]:
        """Those that wait now."""
        with self._lock:
            return tuple(self._waiting)

    def close(self) -> None:
        """End all that wait, and the one that is being started; start no more."""
        self._closed.set()
        self._wake.set()
        if self._looking.acquire(timeout=LEAVE_S):
            self._looking.release()
        with self._lock:
            gone, self._waiting = self._waiting, []
        for reader in gone:
            reader.close()


def count_wanted() -> int:
    """`DLH_READERS`; what is no number from 0 to `COUNT_MOST` is told and counts as not said."""
    text = os.environ.get("DLH_READERS", "").strip()
    if not text:
        return COUNT
    if text.isdecimal() and int(text) <= COUNT_MOST:
        return int(text)
    _log.warning("DLH_READERS is %r: it must be a number from 0 to %d. It is taken as %d.", text, COUNT_MOST, COUNT)
    return COUNT


@lru_cache(maxsize=1)
def readers() -> Readers:
    """Those of this process."""
    return Readers(count_wanted())


def keep() -> None:
    """Keep them, for ever."""
    readers().keep()

"""Hashes of files that are asked for again and again, kept in memory as long as the file is what it was.

A checkpoint of gigabytes is listed for each node that is to go on from it, and at each restart. A file is known by its
number on its disk; that it is unchanged is told by its size, its time of change and that of its entry, which no program
can set back. What changed a moment ago is hashed anew: it could change once more within the same tick of the clock.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import OrderedDict
from io import BufferedReader
from weakref import WeakValueDictionary

SETTLED_NS = 2_000_000_000
MOST = 20_000
"""Files that are remembered, those that were asked for last."""
_Mark = tuple[int, int, int]


class Hashes:
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, int], tuple[_Mark, str]] = OrderedDict()
        self._turns: WeakValueDictionary[tuple[int, int], threading.Lock] = WeakValueDictionary()
        self._lock = threading.Lock()

    def sha256(self, stream: BufferedReader) -> str:
        """Of the whole file, which is open at its beginning. Who asks while another reads it waits for that one's."""
        told = os.fstat(stream.fileno())
        file = told.st_dev, told.st_ino
        with self._lock:
            turn = self._turns.setdefault(file, threading.Lock())
        with turn:
            return self._known_or_read(stream, file, told)

    def _known_or_read(self, stream: BufferedReader, file: tuple[int, int], told: os.stat_result) -> str:
        mark = _mark(told)
        with self._lock:
            known = self._known.get(file)
            if known is not None and known[0] == mark:
                self._known.move_to_end(file)
                return known[1]
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        settled = 0 <= told.st_ctime_ns < time.time_ns() - SETTLED_NS
        if settled and _mark(os.fstat(stream.fileno())) == mark:
            self._keep(file, mark, digest)
        return digest

    def _keep(self, file: tuple[int, int], mark: _Mark, digest: str) -> None:
        with self._lock:
            self._known[file] = (mark, digest)
            self._known.move_to_end(file)
            while len(self._known) > MOST:
                self._known.popitem(last=False)


def _mark(told: os.stat_result) -> _Mark:
    return told.st_size, told.st_mtime_ns, told.st_ctime_ns

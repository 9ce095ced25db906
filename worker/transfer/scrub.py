"""Contents of a node's cache are read again, slowly, and one that does not have its hash any more is put aside.

What a run is about to use is hashed before it starts, as far as that takes no time worth naming (`Depot`). The rest is
asked for here and comes first; everything else has its turn once a day.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from worker.transfer.cache import Cache
from worker.transfer.check import content_digest
from worker.transfer.depot import depot_here

PACE_BYTES_PER_S = 32 << 20
"""Small beside any disk; 50 GiB take half an hour, and hashing them a few per cent of a core."""
WANTED_BYTES_PER_S = 256 << 20
"""What a run uses already is more urgent."""
EVERY_S = 24 * 3600.0
LOOK_S = 5.0
_log = logging.getLogger(__name__)


class Scrub:
    """Which contents were read when; times are of the monotonic clock."""

    def __init__(self, cache: Cache, now_s: Callable[[], float] = time.monotonic) -> None:
        self.cache = cache
        self._now_s = now_s
        self._seen_s: dict[str, float] = {}

    def step(self) -> bool:
        """Read the content that is due most; False where none is."""
        self.cache.aside_remove()
        wanted = self.cache.wanted()
        here = self.cache.contents()
        self._seen_s = {digest: seen_s for digest, seen_s in self._seen_s.items() if digest in here}
        due = [digest for digest in wanted if digest in here] or [
            digest for digest in here if self._now_s() - self._seen_s.get(digest, -EVERY_S) >= EVERY_S
        ]
        for digest in wanted.difference(here):
            self.cache.wanted_drop(digest)
        if not due:
            return False
        self._read(due[0], WANTED_BYTES_PER_S if due[0] in wanted else PACE_BYTES_PER_S)
        return True

    def _read(self, digest: str, bytes_per_s: float) -> None:
        folder = self.cache.path(f"contents/{digest}")
        self.cache.wanted_drop(digest)  # whoever asks from now on asks for another look
        self._seen_s[digest] = self._now_s()
        inode = _inode(folder)
        try:
            if content_digest(folder, lambda count: time.sleep(count / bytes_per_s)) == digest:
                return
        except OSError as error:  # removed meanwhile, or a sector that cannot be read
            _log.warning("content %s cannot be read: %s", digest, error)
        if inode is not None and _inode(folder) == inode:
            with self.cache.alone(f"incoming/{digest}", lambda: False):
                if self.cache.put_aside(digest, inode, []):
                    _log.error("content %s of the cache had become damaged, and was put aside", digest)


def _inode(folder: Path) -> int | None:
    try:
        return folder.stat().st_ino
    except OSError:
        return None


def scrub() -> None:
    """Do so for ever, on a node with a cache."""
    depot = depot_here()
    if depot is None:
        return
    work = Scrub(depot.cache)
    while True:
        try:
            busy = work.step()
        except OSError as error:
            _log.warning("the cache cannot be looked through: %s", error)
            busy = False
        if not busy:
            time.sleep(LOOK_S)

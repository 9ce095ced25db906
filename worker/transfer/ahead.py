"""Fetches data, programs and checkpoints while the jobs that need them wait, so that no device stands idle meanwhile.

One at a time, over one connection, and not while a run or a request on this node has its own files brought. What has
arrived stays when that comes between, and the run fetches the rest itself.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from worker.transfer.brought import Brought
from worker.transfer.cache import AHEAD, STARTING
from worker.transfer.depot import Depot, depot_here
from worker.transfer.fetch import Manner
from worker.transfer.folders import Folders, dataset_name
from worker.transfer.portal import PortalRefused, Stopped, TransferError
from worker.transfer.tree import ahead_folder

NICE = 10
LOOK_S = 1.0
ASK_S = 0.2
"""So often it is asked whether the fetch is still wanted: each block of it asks."""
AGAIN_S = 60.0
"""After one that failed."""
_log = logging.getLogger(__name__)
_copying: dict[str, float] = {}
"""Folder that is being fetched -> share of it that is here."""


class Ahead:
    """Which folders could not be fetched when; times are of the monotonic clock."""

    def __init__(self, depot: Depot, now_s: Callable[[], float] = time.monotonic) -> None:
        self._depot = replace(depot, manner=Manner(connections=1, ahead=True, arrived=self._arrived))
        self._cache, self._folders = depot.cache, Folders(depot.cache.root)
        self._now_s = now_s
        self._failed_s: dict[str, float] = {}
        self._folder, self._asked_s, self._is_over = "", 0.0, False

    def step(self) -> bool:
        """Fetch the folder that is wanted most and not here; False where there is none, or it is not the time."""
        due = (it for it in self._folders.wanted() if not self._folders.has(it) and self._may_try(it))
        folder = next(due, "")
        if not folder or self._cache.is_held(STARTING):
            return False
        self._folder, self._is_over = folder, False
        try:
            with self._cache.alone(AHEAD, self._stopped):
                return self._fetch(folder)
        except Stopped:
            return False
        finally:
            _copying.clear()

    def _may_try(self, folder: str) -> bool:
        return self._now_s() - self._failed_s.get(folder, -AGAIN_S) >= AGAIN_S

    def _fetch(self, folder: str) -> bool:
        brought = Brought()
        try:
            self._depot.content(folder, brought, self._stopped)
        except Stopped:
            raise
        except (TransferError, OSError, ValueError) as error:  # no room, say: the run that needs it makes some
            _log.warning("%s is not fetched ahead for now: %s", folder, error)
            if isinstance(error, PortalRefused):  # its job waits no more
                self._folders.forget(folder)
            self._failed_s[folder] = self._now_s()
            return False
        finally:
            brought.release()
        self._failed_s.pop(folder, None)
        _log.info("%s is here ahead of its run: %d bytes fetched", folder, brought.fetched_bytes)
        return True

    def _stopped(self) -> bool:
        if not self._is_over and self._now_s() - self._asked_s >= ASK_S:
            self._asked_s = self._now_s()
            self._is_over = self._cache.is_held(STARTING) or self._folder not in self._folders.wanted()
        return self._is_over

    def _arrived(self, here_bytes: int, total_bytes: int) -> None:
        _copying[self._folder] = here_bytes / total_bytes if total_bytes else 1.0


def copying_report() -> dict[str, Any]:
    """For the node's report: what is being fetched ahead, its name where it is a dataset; nothing where nothing is."""
    for folder, share in [*_copying.items()]:
        return {"copying": {"dataset": dataset_name(folder), "share": round(share, 2)}}
    return {}


def folders_want(folders: Sequence[str]) -> None:
    """Have folders fetched ahead, the first one first; on a node that sees the store they are there already.

    Raises `ValueError` for what does not go ahead of a run, `OSError`.
    """
    depot = depot_here()
    if depot is not None:
        Folders(depot.cache.root).want([ahead_folder(folder) for folder in folders])


def ahead() -> None:
    """Do so for ever, on a node with a cache."""
    depot = depot_here()
    if depot is None:
        return
    with suppress(OSError):  # of this thread and those that it starts: hashing takes time from nobody's run
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
    work = Ahead(depot)
    while True:
        try:
            busy = work.step()
        except OSError as error:
            _log.warning("nothing can be fetched ahead: %s", error)
            busy = False
        if not busy:
            time.sleep(LOOK_S)

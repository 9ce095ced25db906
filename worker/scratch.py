"""What sandboxes whose process was killed left: control groups, and scratch folders, which below level L2 hold what
programs wrote to `/tmp`.

Those of attempts are known by the registry. Short runs (a reading, a prediction, a check) are in none.
"""

from __future__ import annotations

import logging
import time

from worker.home import run_dir
from worker.sandbox import cgroup, remove_leftovers
from worker.trees import tree_remove

ABANDONED_AFTER_S = 24 * 3600.0
"""No run that is in no registry lasts so long."""
TIDY_EVERY_S = 3600.0
_log = logging.getLogger(__name__)


def abandoned_remove() -> int:
    """Remove those that nobody of this home can be at work in; how many."""
    attempts = {file.stem for file in run_dir("attempts").glob("*/*.json")}  # of every node on this host
    count = 0
    for folder in run_dir("sandbox").iterdir():
        is_attempt = any(folder.name.startswith(f"{name}-") for name in attempts)
        try:
            is_old = time.time() - folder.lstat().st_mtime > ABANDONED_AFTER_S
        except FileNotFoundError:
            continue
        if is_old and not is_attempt:
            tree_remove(folder)
            count += 1
    for name in cgroup.older(ABANDONED_AFTER_S):
        if not any(name == attempt or name.startswith(f"{attempt}-") for attempt in attempts):
            remove_leftovers(name)
            count += 1
    return count


def tidy() -> None:
    """Do so every hour, for ever: a large folder must not keep a heartbeat waiting."""
    while True:
        try:
            abandoned_remove()
        except OSError as error:
            _log.warning("cannot remove what killed runs left: %s", error)
        time.sleep(TIDY_EVERY_S)

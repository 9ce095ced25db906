"""What a node with a cache of its own reports of it."""

from __future__ import annotations

import logging
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from worker.transfer.cache import Cache
from worker.transfer.depot import depot_here
from worker.transfer.fetches import fetches
from worker.transfer.folders import Folders
from worker.transfer.owed import owed_report

USE_FRESH_S = 60.0
"""So old the use of the cache may be in a report."""
_log = logging.getLogger(__name__)


def cache_report(**more: Any) -> dict[str, Any]:
    """For the node's report: how full its cache is, which datasets it has, and `more`; nothing on a node that sees the
    store."""
    depot = depot_here()
    if depot is None:
        return {}
    used = _used(depot.cache.root, int(time.monotonic() // USE_FRESH_S))
    datasets = Folders(depot.cache.root).datasets_here()
    told = {**used, "limit_bytes": depot.cache.limit_bytes, "datasets": datasets, **more}
    if past := fetches(depot.cache):
        told["fetches"] = past
    if damages := depot.cache.damages_lately(time.time()):
        told |= {"damages": len(damages), "damaged_at_s": damages[-1]["at_s"]}
    return {"cache": told}


@lru_cache(maxsize=1)
def _used(root: Path, moment: int) -> dict[str, Any]:
    """Counted anew for each `moment`: it takes a walk over all files. A node whose disk fails still reports, and what
    cannot be told is left out: 0 would read as an empty cache."""
    cache = Cache(root, 0)
    try:
        return {"used_bytes": cache.used_bytes(), **owed_report(cache)}
    except OSError as error:
        _log.warning("how full the cache is cannot be told: %s", error)
        return {}

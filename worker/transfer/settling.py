"""Asks the portal now and then whether anybody still waits for what this node could not return."""

from __future__ import annotations

import logging
import time

from worker.transfer.depot import depot_here
from worker.transfer.owed import owed_settled

ASK_EVERY_S = 600.0
_log = logging.getLogger(__name__)


def settle() -> None:
    """Do so for ever, on a node with a cache."""
    depot = depot_here()
    if depot is None:
        return
    while True:
        try:
            owed_settled(depot.cache, depot.portal)
        except OSError as error:
            _log.warning("what was not returned cannot be looked through: %s", error)
        time.sleep(ASK_EVERY_S)

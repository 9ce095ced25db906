"""How long a job waits before it is started again after a fault of the platform. Pure."""

from __future__ import annotations

FIRST_S = 2.0
MOST_S = 120.0
KEPT_S = 10.0
"""Devices are kept for who starts again within this time: others that got them would be paused for it in a moment, and
starting takes longer than that."""


def restart_delay_s(restarts: int) -> float:
    """Seconds before automatic restart number `restarts` (from 1): 2, 4, 8 ... and never more than `MOST_S`.

    A node that breaks every run at once would otherwise burn all restarts of all jobs within seconds.
    Raises `ValueError` below 1.
    """
    if restarts < 1:
        raise ValueError(f"restarts are counted from 1, not {restarts}")
    return min(MOST_S, FIRST_S * 2.0 ** min(restarts - 1, 16))

"""How often Horovod's own thread looks for messages."""

from __future__ import annotations

CYCLE_SHARE = 0.04
"""Horovod's thread wakes once per cycle and takes the core from the backward pass; a cycle of this share of a step
keeps both that cost and the wait for the next cycle small."""
CYCLE_MS_LIMITS = (0.2, 10.0)
WAKING = "+wake.2"
"""Ending of the version of a Horovod whose thread wakes for each message, and whose wait for a sum sleeps until it is
there (`deploy/horovod/wake.patch`)."""
WAKING_CYCLE_MS = 100.0
"""Its cycles only notice ranks that leave."""


def cycle_ms(step_s: float) -> float:
    """Horovod's cycle time for steps of this length."""
    low, high = CYCLE_MS_LIMITS
    return min(high, max(low, step_s * 1000.0 * CYCLE_SHARE))


def horovod_settings(version: str, step_s: float) -> dict[str, str]:
    """Environment for a Horovod of this version and steps of this length."""
    if version.endswith(WAKING):
        return {"HOROVOD_CYCLE_TIME": f"{WAKING_CYCLE_MS:.2f}", "HOROVOD_WAKE_ON_ENQUEUE": "1"}
    return {"HOROVOD_CYCLE_TIME": f"{cycle_ms(step_s):.2f}"}

"""Which way figures of merit point. Pure, and without torch: control compares them too."""

from __future__ import annotations

SMALLER_IS_BETTER = frozenset({"log_loss", "rmse", "mae", "loss"})


def larger_is_better(metric: str) -> bool:
    """Which way the metric of that name points."""
    return metric not in SMALLER_IS_BETTER

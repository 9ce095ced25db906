"""Whether more of a metric is better. Pure, and without torch: control compares metrics too."""

from __future__ import annotations

SMALLER_IS_BETTER = frozenset({"log_loss", "rmse", "mae", "loss"})


def larger_is_better(metric: str) -> bool:
    """Which way the metric of that name points."""
    return metric not in SMALLER_IS_BETTER

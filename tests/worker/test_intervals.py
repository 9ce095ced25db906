"""Intervals of shares, beside those that others compute, and how often they hold the true value."""

from __future__ import annotations

import numpy as np
import pytest

from worker.intervals import mean_share_interval, share_interval


@pytest.mark.parametrize(
    ("hits", "rows", "low", "high"),
    [(8, 10, 0.490, 0.943), (0, 10, 0.0, 0.278), (50, 50, 0.929, 1.0), (20, 20, 0.839, 1.0)],
)
def test_the_interval_of_a_share_is_wilsons(hits: int, rows: int, low: float, high: float) -> None:
    """Figures as statsmodels' `proportion_confint(method="wilson")` gives them."""
    assert share_interval(hits, rows) == pytest.approx((hits / rows, low, high), abs=0.001)
    share, lowest, highest = share_interval(hits, rows)
    assert lowest <= share <= highest


def test_the_interval_of_a_mean_of_shares_holds_the_true_one_about_95_times_in_100() -> None:
    random = np.random.default_rng(1)
    rows, shares = np.array([400, 25, 60]), np.array([0.95, 0.6, 0.8])
    draws = [mean_share_interval(list(zip(random.binomial(rows, shares), rows, strict=True))) for _ in range(1000)]
    assert 910 < sum(low <= shares.mean() <= high for _, low, high in draws) < 970
    mean, low, high = mean_share_interval([(9, 9), (9, 9), (9, 9)])
    assert (mean, high) == (1.0, 1.0) and low == pytest.approx(0.887, abs=0.001), "27 rows do not make sure"

"""The usual methods that an estimate is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_info, threadpool_limits

from scheduler.estimation.baselines import boosted_trees
from tests.scheduler.made_workloads import points


def threads() -> set[int]:
    return {int(pool["num_threads"]) for pool in threadpool_info() if pool["user_api"] == "openmp"}


def test_trees_take_one_thread_and_leave_the_others_to_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[set[int]] = []
    fit, predict = HistGradientBoostingRegressor.fit, HistGradientBoostingRegressor.predict

    def watched(inner: Any) -> Any:
        def call(*args: Any) -> Any:
            taken.append(threads())
            return inner(*args)

        return call

    monkeypatch.setattr(HistGradientBoostingRegressor, "fit", watched(fit))
    monkeypatch.setattr(HistGradientBoostingRegressor, "predict", watched(predict))
    some = points(4)
    with threadpool_limits(2, "openmp"):
        found = boosted_trees(some, np.arange(1.0, len(some) + 1))(some)
        assert threads() == {2}
    assert taken == [{1}, {1}] and found.shape == (len(some),)

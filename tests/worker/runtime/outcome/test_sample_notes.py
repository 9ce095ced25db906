"""What the lists of the best and the worst samples hold, and say of themselves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
import torch

from worker.runtime.outcome.charts import moments_shown, sample_charts

WRONG = " Even of these some are wrong."


@pytest.mark.parametrize(("predicted", "is_told"), [("no", True), ("yes", False)])
def test_best_samples_say_where_some_of_them_are_wrong(predicted: str, is_told: bool) -> None:
    badness, part = np.array([0.9, 0.6]), cast(Any, SimpleNamespace(rows=torch.arange(2)))
    shown: list[list[Any]] = [["yes", "yes", 0.9], ["yes", predicted, 0.6]]
    columns = ["true", "predicted", "confidence"]
    worst, best = sample_charts(badness, shown, columns, part, pa.table({"size": [1, 2]}))
    assert best["note"].endswith(WRONG) is is_told and WRONG not in worst["note"]


def test_a_row_that_is_foretold_several_times_stands_once_by_its_worst_and_by_its_best_forecast() -> None:
    badness, part = np.array([3.0, 9.0, 1.0, 2.0]), cast(Any, SimpleNamespace(rows=torch.tensor([7, 7, 7, 4])))
    shown: list[list[Any]] = [[bad] for bad in badness.tolist()]
    worst, best = sample_charts(badness, shown, ["error"], part, pa.table({"steps ahead": [1, 24, 2, 3]}))
    assert worst["rows"] == [[7, "row 8", 9.0, 24], [4, "row 5", 2.0, 3]]
    assert best["rows"] == [[7, "row 8", 1.0, 2], [4, "row 5", 2.0, 3]]
    assert worst["note"].startswith("2 of 2 rows,") and "Of each row the forecast" in worst["note"]


def test_samples_of_a_forecast_tell_their_moment_and_the_series_where_there_are_several() -> None:
    several = pa.table({"series": ["a", "b"], "time": [1, 2], "steps ahead": [1, 1], "last value": [3.0, 4.0]})
    assert moments_shown(several).column_names == ["series", "time", "steps ahead", "last value"]
    assert moments_shown(several.slice(0, 1)).column_names == ["time", "steps ahead", "last value"]

"""What the lists of the best and the worst samples say of themselves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from worker.runtime.outcome.charts import sample_charts

WRONG = " Even of these some are wrong."


@pytest.mark.parametrize(("predicted", "is_told"), [("no", True), ("yes", False)])
def test_best_samples_say_where_some_of_them_are_wrong(predicted: str, is_told: bool) -> None:
    badness, part = np.array([0.9, 0.6]), cast(Any, SimpleNamespace(rows=np.arange(2)))
    shown: list[list[Any]] = [["yes", "yes", 0.9], ["yes", predicted, 0.6]]
    columns = ["true", "predicted", "confidence"]
    worst, best = sample_charts(badness, shown, columns, part, pa.table({"size": [1, 2]}))
    assert best["note"].endswith(WRONG) is is_told and WRONG not in worst["note"]

"""Curves of one class and their areas, held against scikit-learn's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from worker.runtime.outcome.curves import average_precision, precision_recall_curve, roc_area, roc_curve

SCORED = st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 1e-9, 0.1, 0.25, 0.5, 0.75, 1.0])), max_size=30)


@given(SCORED, st.booleans())
def test_points_and_areas_are_those_of_scikit_learn(rows: list[tuple[bool, float]], dropped: bool) -> None:
    rows = [*rows, (True, 0.5), (False, 0.25)]
    is_class, score = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    for ours, theirs in (
        (roc_curve, metrics.roc_curve),
        (precision_recall_curve, metrics.precision_recall_curve),
    ):
        found = ours(is_class, score, drop_intermediate=dropped)
        expected = theirs(is_class, score, drop_intermediate=dropped)
        for column, wanted in zip(found, expected, strict=True):
            assert column.tolist() == wanted.tolist()
    assert average_precision(is_class, score) == pytest.approx(metrics.average_precision_score(is_class, score))
    assert roc_area(is_class, score) == pytest.approx(metrics.roc_auc_score(is_class, score))


def test_a_score_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="no number"):
        roc_curve(np.array([True, False]), np.array([0.5, np.nan]), drop_intermediate=False)


def test_results_are_drawn_without_loading_scikit_learn_or_scipy(tmp_path: Path) -> None:
    """They would take longer to load than many a job trains."""
    code = (
        "import sys, numpy as np; from worker.runtime.outcome.charts import curve_charts; "
        "curve_charts(np.array([0, 1, 1]), np.eye(2)[[0, 1, 0]].T.__getitem__, ['a', 'b']); "
        "sys.exit(bool({'sklearn', 'scipy'} & sys.modules.keys()))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[4])

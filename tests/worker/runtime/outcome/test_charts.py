"""Charts of classification with few and with very many classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from worker.runtime.data import Part
from worker.runtime.outcome.chart import metric_words
from worker.runtime.outcome.charts import (
    CLASSES_SHOWN,
    CURVES_SHOWN,
    ROWS_SHOWN,
    calibration_chart,
    confusion_chart,
    curve_charts,
    per_class_chart,
    told_apart,
)
from worker.runtime.outcome.regression_charts import regression_charts

ZEROS = torch.zeros(2, dtype=torch.int64)


def test_few_classes_are_all_shown() -> None:
    true, best = np.array([0, 0, 1, 2, 2, 2]), np.array([0, 1, 1, 2, 2, 0])
    matrix = confusion_chart(true, best, ["a", "b", "c"])
    assert matrix["rows"] == [["a", 1, 1, 0], ["b", 0, 1, 0], ["c", 1, 0, 2]]
    rows = per_class_chart(true, best, ["a", "b", "c"])["rows"]
    assert rows[2] == ["c", 3, 1.0, pytest.approx(2 / 3), pytest.approx(0.8)]


def test_of_ten_thousand_classes_the_most_frequent_are_shown_and_it_is_said() -> None:
    names = [f"class {number}" for number in range(10_000)]
    true = np.concatenate([np.arange(10_000), np.full(50, 9_999)])
    matrix, table = confusion_chart(true, true, names), per_class_chart(true, true, names)
    assert len(matrix["rows"]) == CLASSES_SHOWN + 1 and "most frequent of 10000" in matrix["note"]
    assert matrix["rows"][-2][0] == "class 9999" and matrix["rows"][-2][-2] == 51
    assert len(table["rows"]) == ROWS_SHOWN and "most frequent of 10000" in table["note"]


def test_what_is_taken_for_a_class_that_is_not_shown_counts_in_the_row_and_column_of_all_others() -> None:
    names = [f"class {number}" for number in range(CLASSES_SHOWN + 2)]
    true = np.concatenate([np.repeat(np.arange(CLASSES_SHOWN), 10), [CLASSES_SHOWN, CLASSES_SHOWN + 1]])
    best = true.copy()
    best[:4], best[-1] = CLASSES_SHOWN, 0
    matrix = confusion_chart(true, best, names)
    assert matrix["columns"][-1] == matrix["rows"][-1][0] == "other classes"
    cells = np.array([row[1:] for row in matrix["rows"]])
    assert cells.sum() == len(true) and cells[0].sum() == 10 and cells[0, 0] == 6 and cells[0, -1] == 4
    assert cells[-1].tolist() == [1, *[0] * (CLASSES_SHOWN - 1), 1]


def test_a_class_that_was_neither_there_nor_guessed_has_no_figures() -> None:
    row = per_class_chart(np.array([0]), np.array([0]), ["a", "b"])["rows"][1]
    assert row == ["b", 0, None, None, None]


def test_of_two_classes_the_rarer_one_is_judged() -> None:
    """Scores by chance: of nine in ten the average precision is 0.9, which says nothing."""
    random = np.random.default_rng(0)
    true, score = (np.arange(2000) % 10 > 0).astype(np.int64), random.random(2000)
    roc, _, areas = curve_charts(true, np.stack([1 - score, score]).__getitem__, ["fraud", "legal"])
    assert {row[0] for row in roc["rows"]} == {"fraud"}
    assert areas["rows"] == [["fraud", 200, pytest.approx(0.1, abs=0.03), pytest.approx(0.5, abs=0.05)]]
    assert areas["note"] == ""


def reached(curve: dict[str, Any], threshold: float) -> list[float]:
    """The point at which a page takes rows from this probability on (`pointAt` in threshold.js)."""
    is_roc = curve["id"] == "roc"
    least = min(row[3] for row in curve["rows"] if row[3] >= threshold)
    points = [row[1:3] for row in curve["rows"] if row[3] == least]
    return max(points, key=lambda point: point[::-1] if is_roc else (point[0], -point[1]))


@pytest.mark.parametrize("rows", [10, 3000])
def test_of_two_classes_each_threshold_tells_what_it_finds_and_takes_wrongly(rows: int) -> None:
    random = np.random.default_rng(1)
    true = (np.arange(rows) % 5 > 2).astype(np.int64)
    score = np.clip(random.normal(0.3 + 0.4 * true, 0.2), 0.0, 1.0)
    score[:2] = 1.0
    roc, pr, _ = curve_charts(true, np.stack([1 - score, score]).__getitem__, ["no", "yes"])
    for threshold in np.arange(101) / 100:
        called = score >= threshold
        found, wrong = (np.count_nonzero(called & (true == kind)) for kind in (1, 0))
        there = np.count_nonzero(true)
        assert reached(roc, threshold) == pytest.approx([wrong / (rows - there), found / there])
        assert reached(pr, threshold) == pytest.approx([found / there, found / (found + wrong)])
    assert len(roc["rows"]) <= 310 and len(pr["rows"]) <= 310


def test_areas_of_tied_scores_are_those_of_a_coin() -> None:
    true = np.arange(100) % 4 // 3
    roc, pr, areas = curve_charts(true, np.full((2, 100), 0.5).__getitem__, ["a", "b"])
    assert [row[1:3] for row in roc["rows"]] == [[0.0, 0.0], [1.0, 1.0]]
    assert [row[1:3] for row in pr["rows"]] == [[1.0, 0.25], [0.0, 1.0]]
    assert areas["rows"] == [["b", 25, 0.25, 0.5]]


def test_the_mean_over_classes_is_told_and_so_is_which_classes_they_are() -> None:
    classes = CURVES_SHOWN + 5
    true = np.repeat(np.arange(classes), np.arange(2, classes + 2))
    sure = np.eye(classes)[true]
    *curves, areas = curve_charts(true, sure.T.__getitem__, [f"c{number}" for number in range(classes)])
    assert len(areas["rows"]) == CURVES_SHOWN and areas["rows"][0][0] == "c5"
    assert areas["note"] == (
        f"The {CURVES_SHOWN} most frequent of {classes} classes. Mean over these classes: average precision 1.000, "
        "area under the ROC curve 1.000."
    )
    assert all(curve["note"] == f"The {CURVES_SHOWN} most frequent of {classes} classes." for curve in curves)


def test_a_class_without_rows_has_no_curve() -> None:
    *_, areas = curve_charts(np.array([0, 0, 1, 1]), np.eye(3)[[0, 1, 1, 1]].T.__getitem__, ["a", "b", "c"])
    assert [row[0] for row in areas["rows"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("share_right", "words"),
    [
        (0.6, "0.300: its confidence is off by 30.0 points on average, and it is right less often than it says."),
        (0.9, "0.000: its confidence is off by 0.0 points on average."),
        (1.0, "0.100: its confidence is off by 10.0 points on average, and it is right more often than it says."),
    ],
)
def test_calibration_is_told_in_words(share_right: float, words: str) -> None:
    right = np.arange(100) < 100 * share_right
    chart = calibration_chart(right, np.full(100, 0.9))
    assert chart["note"] == f"Expected calibration error {words}"
    assert chart["rows"] == [["0.9-1.0", pytest.approx(0.9), pytest.approx(share_right), 100]]


def test_large_numbers_of_a_regression_are_written_whole_not_as_powers_of_ten() -> None:
    true = np.linspace(100_000.0, 900_000.0, 60)
    residuals, _ = regression_charts(true, true + 12_345.6, np.arange(60))
    assert "mean 12,346" in residuals["note"] and "e+" not in residuals["note"]


@pytest.mark.parametrize("residuals", [[3e17], [1e18, 1e18], [5.0, np.nextafter(5.0, 6.0)], [0.0, 0.0]])
def test_residuals_that_are_all_but_the_same_have_one_bar_however_large_they_are(residuals: list[float]) -> None:
    off = np.array(residuals)
    chart, _ = regression_charts(np.zeros(len(off)), off, np.arange(len(off)))
    assert chart["rows"] == [[off.min(), off.max(), len(off)]]


def test_pictures_are_grouped_by_their_brightness_not_by_their_names() -> None:
    names = pa.table({"name": ["a.png", "b.png"]})
    pictures = Part((torch.tensor([0, 200], dtype=torch.uint8).expand(3, 4, 4, 2).permute(3, 0, 1, 2),), ZEROS, ZEROS)
    assert told_apart(pictures, names).to_pydict() == {"brightness": [0.0, 200.0]}
    assert told_apart(Part((torch.zeros(2, 3),), ZEROS, ZEROS), names) is names


@pytest.mark.parametrize(
    ("metric", "words"), [("r2", "R²"), ("rmse", "RMSE"), ("macro_f1", "macro F1"), ("log_loss", "log loss")]
)
def test_sentences_call_metrics_by_their_names(metric: str, words: str) -> None:
    assert metric_words(metric) == words

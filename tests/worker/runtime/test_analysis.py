"""Charts of classification with few and with very many classes."""

from __future__ import annotations

import numpy as np
import pytest

from worker.runtime.analysis import CLASSES_SHOWN, ROWS_SHOWN, confusion_chart, per_class_chart


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
    assert len(matrix["rows"]) == CLASSES_SHOWN and "most frequent of 10000" in matrix["note"]
    assert matrix["rows"][-1][0] == "class 9999" and matrix["rows"][-1][-1] == 51
    assert len(table["rows"]) == ROWS_SHOWN and "most frequent of 10000" in table["note"]


def test_a_class_that_was_neither_there_nor_guessed_has_no_figures() -> None:
    row = per_class_chart(np.array([0]), np.array([0]), ["a", "b"])["rows"][1]
    assert row == ["b", 0, None, None, None]

"""The sentence above the table of metrics."""

from __future__ import annotations

from typing import Any

import pytest

from harness.jobs.models import Job
from harness.pages.results_view import commonest_class, verdict

CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "classes of a table": (
        "tabular_classification",
        {"accuracy": 0.8512},
        "Of rows it has never seen, it names the right class for 85.1 %.",
    ),
    "classes of pictures": (
        "image_classification",
        {"accuracy": 1.0},
        "Of pictures it has never seen, it names the right class for 100 %.",
    ),
    "even classes": (
        "tabular_classification",
        {"accuracy": 0.85, "balanced_accuracy": 0.84},
        "Of rows it has never seen, it names the right class for 85 %.",
    ),
    "a rare class that is missed": (
        "tabular_classification",
        {"accuracy": 0.98, "balanced_accuracy": 0.61},
        "Of rows it has never seen, it names the right class for 98 %. "
        "Averaged over classes, however rare, it is 61 % (balanced accuracy).",
    ),
    "a number": (
        "tabular_regression",
        {"mae": 1.427, "r2": 0.6083},
        "On rows it has never seen, its predictions are off by 1.43 on average, "
        "and explain 60.8 % of what makes the values differ.",
    ),
    "a number not learnt": (
        "tabular_regression",
        {"mae": 2.5, "r2": -0.1},
        "On rows it has never seen, its predictions are off by 2.5 on average: "
        "no better than always predicting the mean.",
    ),
    "no test part": ("tabular_regression", {}, ""),
    "what is no number": ("tabular_classification", {"accuracy": float("nan")}, ""),
}


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_says_the_metrics_in_plain_words(case: str) -> None:
    task, metrics, words = CASES[case]
    assert verdict(Job(task=task), metrics) == words


def shown(accuracy: float, rows: list[Any], **chart: Any) -> str:
    """The verdict of a results page."""
    per_class = {"id": "per_class", "split": "test", "columns": ["class", "rows"], "rows": rows, "note": "", **chart}
    body = {"metrics": {"test": {"accuracy": accuracy}}, "charts": [per_class]}
    return verdict(Job(task="tabular_classification"), body["metrics"]["test"], commonest_class(body))


def test_what_always_answering_the_commonest_class_gives_stands_beside_the_accuracy() -> None:
    rows = [["fraud", 50], ["legal", 950], ["gone", 0]]
    said = "Of rows it has never seen, it names the right class for"
    assert shown(0.98, rows) == f"{said} 98 %; always answering 'legal' is right for 95 %."
    assert shown(0.95, rows) == f"{said} 95 %: no better than always answering 'legal', which is right for 95 %."
    assert shown(0.98, rows, split="val") == shown(0.98, rows, note="Some of many.") == f"{said} 98 %."
    assert shown(0.98, [["a"], 7, ["b", "c"]]) == f"{said} 98 %."

"""What the results page tells to do next."""

from __future__ import annotations

from typing import Any

import pytest

from harness.pages.advice import advice

GOOD = {"train": {"accuracy": 0.95}, "val": {"accuracy": 0.93}}
CLASSES = [{"class": "cat", "rows": 40, "recall": 0.9}, {"class": "dog", "rows": 12, "recall": 0.25}]
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "no better than guessing": ({"metrics": GOOD, "beats_guessing": False}, "It has not learnt anything useful yet."),
    "learnt by heart": (
        {"metrics": {"train": {"accuracy": 0.99}, "val": {"accuracy": 0.71}}},
        "It knows the rows it was trained on much better than others (accuracy 0.99 against 0.71)",
    ),
    "a number learnt by heart": (
        {"metrics": {"train": {"r2": 0.9}, "val": {"r2": 0.5}}},
        "It knows the rows it was trained on much better than others (R² 0.9 against 0.5)",
    ),
    "a class that is hardly found": ({"metrics": GOOD, "classes": CLASSES}, "Of class 'dog' it finds only 25 %"),
    "a class that is never found": (
        {"metrics": GOOD, "classes": [{"class": "dog", "rows": 12, "recall": 0.0}]},
        "Of class 'dog' it finds none: look",
    ),
    "classes that are never found": (
        {
            "metrics": GOOD,
            "sample": "picture",
            "classes": [CLASSES[0], *({"class": name, "rows": 12, "recall": 0.0} for name in ("eel", "dog"))],
        },
        "Of classes 'dog' and 'eel' it finds none: look at the worst examples below; more pictures of these classes",
    ),
    "more classes that are never found than are named": (
        {"metrics": GOOD, "classes": [{"class": str(i), "rows": 9, "recall": 0.0} for i in range(4)]},
        "Of classes '0', '1', '2' and 1 other it finds none: look",
    ),
    "pictures learnt by heart": (
        {"metrics": {"train": {"accuracy": 0.99}, "val": {"accuracy": 0.71}}, "sample": "picture"},
        "It knows the pictures it was trained on much better than others (accuracy 0.99 against 0.71): more pictures,",
    ),
    "a class without a test row": (
        {"metrics": GOOD, "classes": [CLASSES[0], {"class": "eel", "rows": 0, "recall": None}]},
        "Nothing is known of how well it finds 'eel': no test row",
    ),
    "a few rows with most of the error": (
        {"metrics": {"test": {"rmse": 5.0}}, "worst": [("row 7", 80.0), ("row 9", 60.0)], "rows": 442},
        "Of 442 test rows row 7, row 9 make 90 % of the squared error",
    ),
    "one row with nearly all of the error": (
        {"metrics": {"test": {"rmse": 5.0}}, "worst": [("row 3", 99.85)], "rows": 400},
        "Of 400 test rows row 3 makes 99.7 % of the squared error",
    ),
    "best at the end": ({"metrics": GOOD, "best_epoch": 12.0, "epochs": 12}, "Its last epoch was its best"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_stands_out_is_told_with_what_would_help(case: str) -> None:
    given, words = CASES[case]
    found = advice(**given)
    assert len(found) == 1 and found[0].startswith(words)


@pytest.mark.parametrize(
    "given",
    [
        {"metrics": GOOD, "best_epoch": 7.0, "epochs": 12},
        {"metrics": {"test": {"rmse": 5.0}}, "worst": [("row 7", 20.0), ("row 9", 19.0)], "rows": 442},
        {"metrics": {"test": {"rmse": 5.0}}, "worst": [("row 7", 30.0)], "rows": 40},
        {"metrics": {}, "classes": [{"class": "rare", "rows": 2, "recall": 0.0}]},
        {"metrics": {"train": {"accuracy": "high"}, "val": {"accuracy": None}}, "classes": [{"recall": float("nan")}]},
    ],
)
def test_nothing_is_told_where_nothing_stands_out_or_what_was_written_is_nonsense(given: dict[str, Any]) -> None:
    assert advice(**given) == []

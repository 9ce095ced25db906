"""The sentence above the table of metrics."""

from __future__ import annotations

from typing import Any

import pytest

from harness.pages.verdict import beats_guessing, verdict

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
    "nearly all of the pictures": (
        "image_classification",
        {"accuracy": 0.9996},
        "Of pictures it has never seen, it names the right class for 99.96 %.",
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


SAID = "Of rows it has never seen, it names the right class for"


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_says_the_metrics_in_plain_words(case: str) -> None:
    task, metrics, words = CASES[case]
    assert verdict(task, {"metrics": {"test": metrics}}) == words


def results(test: dict[str, Any], rows: list[Any], metric: str = "accuracy", **chart: Any) -> dict[str, Any]:
    """A results.json with a table per class: name, rows, recall."""
    per_class = {"id": "per_class", "split": "test", "columns": ["class", "rows", "recall"], "rows": rows, "note": ""}
    return {"metrics": {"test": test}, "metric": {"name": metric}, "charts": [per_class | chart]}


def shown(accuracy: float, rows: list[Any], **chart: Any) -> str:
    """The verdict of a results page."""
    return verdict("tabular_classification", results({"accuracy": accuracy}, rows, **chart))


def test_what_always_answering_the_commonest_class_gives_stands_beside_the_accuracy() -> None:
    rows = [["fraud", 50], ["legal", 950], ["gone", 0]]
    assert shown(0.98, rows) == f"{SAID} 98 %; always answering 'legal' is right for 95 %."
    assert shown(0.95, rows) == f"{SAID} 95 %: no better than always answering 'legal', which is right for 95 %."
    assert shown(0.98, rows, split="val") == shown(0.98, rows, note="Some of many.") == f"{SAID} 98 %."
    assert shown(0.98, [["a"], 7, ["b", "c"]]) == f"{SAID} 98 %."
    assert shown(0.98, [[*row, 7] for row in rows]) == shown(0.98, rows), "what is no share tells nothing"


RARE = [["no", 940, 0.83], ["yes", 60, 0.79]]
FOUND = {"accuracy": 0.8276, "balanced_accuracy": 0.81, "macro_f1": 0.64}


def test_a_model_that_finds_a_rare_class_at_the_cost_of_the_commonest_has_learnt_something() -> None:
    body = results(FOUND, RARE, metric="balanced_accuracy")
    assert beats_guessing(body)
    assert verdict("tabular_classification", body) == (
        f"{SAID} 81 %, averaged over classes, however rare (balanced accuracy); "
        "always giving the same answer is right for 50 %. Of all rows it is 82.8 % (accuracy); "
        "always answering 'no' is right for 94 %."
    )
    body["metric"]["name"] = "macro_f1"
    assert "(balanced accuracy); always giving" in verdict("", body) and "Its macro F1 is 0.64." in verdict("", body)
    body["metric"]["name"] = "log_loss"
    assert verdict("tabular_classification", body) == (
        f"{SAID} 82.8 %; always answering 'no' is right for 94 %. "
        "Averaged over classes, however rare, it is 81 % (balanced accuracy), where one answer for all gives 50 %."
    )


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy"])
def test_a_model_that_may_owe_the_classes_it_finds_to_chance_is_no_better_than_guessing(metric: str) -> None:
    body = results({"accuracy": 0.7, "balanced_accuracy": 0.6}, [["no", 20, 0.75], ["yes", 4, 0.45]], metric=metric)
    assert not beats_guessing(body)
    assert "no better" in verdict("tabular_classification", body)


def test_what_is_not_known_is_not_held_against_a_model() -> None:
    assert beats_guessing({}) and beats_guessing(results({"accuracy": 0.1}, []))
    assert not beats_guessing(results({"accuracy": 0.9}, [["no", 95], ["yes", 5]])), "accuracy alone tells"
    assert beats_guessing(results({"r2": 0.1}, [])) and not beats_guessing(results({"r2": 0.0}, []))


def forecast(mae: float, **chart: Any) -> dict[str, Any]:
    """The results of a forecast beside two simple ones, of whose values it explains nearly all."""
    rows = [["this model", mae, 3.0], ["last value", 2.5, 3.5], ["7 steps before", 4.0, 5.0]]
    columns = ["forecast", "mean_absolute_error", "rmse"]
    simple = {"id": "simple_forecasts", "split": "test", "columns": columns, "rows": rows, **chart}
    return {"metrics": {"test": {"mae": mae, "r2": 0.99}}, "rows": {"test": 2100}, "charts": [simple]}


def test_a_forecast_is_judged_beside_the_best_simple_one() -> None:
    off = "Of what came after its training, its forecasts are off by"
    assert beats_guessing(forecast(2.0)) and not beats_guessing(forecast(2.5))
    assert verdict("forecast", forecast(2.0), "km") == (
        f"{off} 2 km on average (2,100 test forecasts); the best simple forecast (last value) is off by 2.5 km."
    )
    assert verdict("forecast", forecast(2.5), "km") == (
        f"{off} 2.5 km on average (2,100 test forecasts): no better than a simple forecast without a model "
        "(last value), which is off by 2.5 km."
    )


@pytest.mark.parametrize("chart", [{"split": "val"}, {"rows": [7, ["this", 2.0]]}, {"rows": [["this", 2], ["last"]]}])
def test_a_forecast_beside_which_nothing_is_known_is_judged_by_what_it_explains(chart: dict[str, Any]) -> None:
    body = forecast(2.0, **chart)
    assert beats_guessing(body)
    assert "and explain 99 % of what makes the values differ." in verdict("forecast", body)


def test_figures_have_their_intervals_and_the_rows_they_rest_on() -> None:
    classes = {"metrics": {"test": {"accuracy": 26 / 27}}, "rows": {"test": 27}}
    assert verdict("", classes | {"intervals": {"test": {"accuracy": [0.817, 0.993]}}}) == (
        f"{SAID} 96.3 % (82 to 99 %, 27 test rows)."
    )
    narrow = classes | {"rows": {"test": 10_000}, "intervals": {"test": {"accuracy": [0.9601, 0.9662]}}}
    assert f"{SAID} 96.3 % (96.0 to 96.6 %, 10,000 test rows)." == verdict("", narrow)
    nearly = {"metrics": {"test": {"accuracy": 0.99996}}, "intervals": {"test": {"accuracy": [0.99986, 0.99999]}}}
    assert f"{SAID} 99.996 % (99.986 to 99.999 %)." == verdict("", nearly)
    assert "96.3 % (1 test picture)." in verdict("image_classification", classes | {"rows": {"test": 1}})
    assert f"{SAID} 96.3 %." == verdict("", classes | {"rows": 27, "intervals": {"test": {"accuracy": "high"}}})
    numbers = {
        "metric": {"name": "rmse"},
        "metrics": {"test": {"mae": 1.427, "rmse": 2.08, "r2": 0.6083}},
        "rows": {"test": 627},
        "intervals": {"test": {"mae": [1.313, 1.541], "rmse": [1.9, 2.304]}},
    }
    assert verdict("tabular_regression", numbers) == (
        "On rows it has never seen, its predictions are off by 1.43 on average (1.31 to 1.54, 627 test rows), "
        "and explain 60.8 % of what makes the values differ. Its RMSE is 2.08 (1.9 to 2.3)."
    )


def test_who_asked_for_the_area_under_the_roc_curve_is_told_what_it_means() -> None:
    body = results({"accuracy": 0.9, "roc_auc": 0.8714}, [["no", 90, 0.95], ["yes", 10, 0.45]], metric="roc_auc")
    told = verdict("tabular_classification", body)
    assert told.startswith(f"{SAID} 90 %")
    assert told.endswith(
        "Of two rows, one of a class and one not, it gives the former the higher probability in 87.1 % of cases "
        "(ROC AUC 0.871; 50 % is guessing)."
    )
    for area, words in ((0.99996, "99.996 % of cases (ROC AUC 0.99996;"), (1.0, "100 % of cases (ROC AUC 1;")):
        assert words in verdict("", results({"accuracy": 0.9, "roc_auc": area}, [], metric="roc_auc"))
    assert "ROC" not in verdict("tabular_classification", results({"accuracy": 0.9, "roc_auc": 0.87}, []))

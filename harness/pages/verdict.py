"""How good a model is on rows that it has never seen: a sentence for people who do not know the metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from harness.pages.figures import figure
from harness.pages.results_read import charts_of, dict_of, number_of, rows_of
from worker.intervals import mean_share_interval
from worker.words import share_span_words, share_words

TELLING_GAP = 0.05
"""From so much between accuracy and balanced accuracy on, the classes are too uneven for the first to tell all."""
BY_CLASS = frozenset({"balanced_accuracy", "macro_f1"})
"""Metrics for which a class counts as much as any other, however rare."""


class ClassFound(NamedTuple):
    """A class of the test part."""

    name: str
    rows: float
    recall: float | None
    """Share of its rows that is named right; None: not known."""


def verdict(task: str, body: dict[str, Any], unit: str = "") -> str:
    """The test part in a sentence or two, led by what the chosen metric counts; empty where a figure is missing.

    `unit`: of a predicted number.
    """
    test = dict_of(dict_of(body.get("metrics")).get("test"))
    accuracy, balanced, mae, r2 = (number_of(test.get(name)) for name in ("accuracy", "balanced_accuracy", "mae", "r2"))
    metric, what = dict_of(body.get("metric")).get("name"), "pictures" if task == "image_classification" else "rows"
    if accuracy is not None:
        told, classes = f"Of {what} it has never seen, it names the right class for", classes_tested(body)
        if balanced is not None and metric in BY_CLASS:
            f1 = number_of(test.get("macro_f1")) if metric == "macro_f1" else None
            told = f"{told} {_percent(balanced)}{_sure(body, 'balanced_accuracy', what)}, averaged over classes, "
            told += f"however rare (balanced accuracy){_beside_one_answer(classes)}."
            told += f" Of all {what} it is {_percent(accuracy)} (accuracy){_one_answer_beside(classes)}."
            return f"{told} Its macro F1 is {figure(f1, 3)}." if f1 is not None else told
        told = f"{told} {_percent(accuracy)}{_sure(body, 'accuracy', what)}{_beside_commonest(accuracy, classes)}."
        return told + _class_by_class(accuracy, balanced, classes) + _ranked(test, metric, what)
    if mae is None or r2 is None:
        return ""
    if task == "forecast":
        by = f"{_with_unit(mae, unit)} on average{_sure(body, 'mae', 'forecasts')}"
        off = f"Of what came after its training, its forecasts are off by {by}"
    else:
        by = f"{_with_unit(mae, unit)} on average{_sure(body, 'mae', what)}"
        off = f"On rows it has never seen, its predictions are off by {by}"
    rmse = number_of(test.get("rmse")) if metric == "rmse" else None
    more = f" Its RMSE is {_with_unit(rmse, unit)}{_sure(body, 'rmse')}." if rmse is not None else ""
    if beside := _beside_simple(body, mae, unit):
        return f"{off}{beside}.{more}"
    if r2 <= 0:
        return f"{off}: no better than always predicting the mean.{more}"
    return f"{off}, and explain {_percent(r2)} of what makes the values differ.{more}"


def _beside_simple(body: dict[str, Any], mae: float, unit: str) -> str:
    """How it compares with the best forecast without a model; empty where none is known. Of a series that wanders, a
    share of its spread would flatter: the last value explains nearly all of it."""
    simple = _best_simple(body)
    if simple is None:
        return ""
    told = f"is off by {_with_unit(simple[0], unit)}"
    if mae < simple[0]:
        return f"; the best simple forecast ({simple[1]}) {told}"
    return f": no better than a simple forecast without a model ({simple[1]}), which {told}"


def _best_simple(body: dict[str, Any]) -> tuple[float, Any] | None:
    """(mean absolute error, name) of the best forecast without a model on the test rows."""
    told = ("simple_forecasts", "test")
    rows = [row for chart in charts_of(body) if (chart.get("id"), chart.get("split")) == told for row in rows_of(chart)]
    figures = [(number_of(row.get("mean_absolute_error")), row.get("forecast")) for row in rows[1:]]  # first: the model
    return min(((off, name) for off, name in figures if off is not None), key=lambda found: found[0], default=None)


def _with_unit(value: float, unit: str) -> str:
    return f"{figure(value, 3)} {unit}".rstrip()


def _ranked(test: dict[str, Any], metric: Any, what: str) -> str:
    """How well it puts what is of a class before what is not, where that was asked for."""
    area = number_of(test.get("roc_auc")) if metric == "roc_auc" else None
    if area is None:
        return ""
    told = (words for digits in range(3, 9) if (words := figure(area, digits)) != "1")  # it is not 1 beside 99.996 %
    return (
        f" Of two {what}, one of a class and one not, it gives the former the higher probability in {_percent(area)} "
        f"of cases (ROC AUC {next(told, '1')}; 50 % is guessing)."
    )


def beats_guessing(body: dict[str, Any]) -> bool:
    """Whether it is better than always giving one answer, or a forecast without a model, unless nothing tells.

    Of classes it is where it names more rows right, or surely finds more of each class on average: a model that was
    told to find rare ones does so at the cost of the commonest.
    """
    test, classes = dict_of(dict_of(body.get("metrics")).get("test")), classes_tested(body)
    accuracy, mae, r2 = (number_of(test.get(name)) for name in ("accuracy", "mae", "r2"))
    if mae is not None and (simple := _best_simple(body)):
        return mae < simple[0]
    if r2 is not None:
        return r2 > 0
    if accuracy is None or not classes:
        return True
    return accuracy > _commonest(classes)[1] or bool(_tells_apart(classes))


def classes_tested(body: dict[str, Any]) -> list[ClassFound]:
    """The classes of which the test part has rows; none where the chart per class has not all of them."""
    for chart in charts_of(body):
        if chart.get("id") == "per_class" and chart.get("split") == "test" and not chart.get("note"):
            found = [(row, number_of(row.get("rows")) or 0.0) for row in rows_of(chart)]
            return [
                ClassFound(str(row.get("class")), rows, _share(row.get("recall"))) for row, rows in found if rows >= 1
            ]
    return []


def _share(value: Any) -> float | None:
    share = number_of(value)
    return share if share is not None and 0 <= share <= 1 else None


def _commonest(classes: Sequence[ClassFound]) -> tuple[str, float]:
    """The most frequent class and its share of the rows."""
    most = max(classes, key=lambda found: found.rows)
    return most.name, most.rows / sum(found.rows for found in classes)


def _tells_apart(classes: Sequence[ClassFound]) -> bool | None:
    """Whether it finds more of each class, on average and beyond chance, than one answer for all; None: not known."""
    counts = [(found.recall * found.rows, found.rows) for found in classes if found.recall is not None]
    if not counts or len(counts) < len(classes):
        return None
    return mean_share_interval(counts)[1] > 1 / len(counts)


def _beside_commonest(accuracy: float, classes: Sequence[ClassFound]) -> str:
    """What answering the commonest class every time would give."""
    if not classes:
        return ""
    name, share = _commonest(classes)
    if accuracy <= share and not _tells_apart(classes):
        return f": no better than always answering '{name}', which is right for {_percent(share)}"
    return _one_answer_beside(classes)


def _one_answer_beside(classes: Sequence[ClassFound]) -> str:
    """The same without a judgement."""
    if not classes:
        return ""
    name, share = _commonest(classes)
    return f"; always answering '{name}' is right for {_percent(share)}"


def _beside_one_answer(classes: Sequence[ClassFound]) -> str:
    """What one answer for all would give on average over classes."""
    if (tells_apart := _tells_apart(classes)) is None:
        return ""
    share = _percent(1 / len(classes))
    if tells_apart:
        return f"; always giving the same answer is right for {share}"
    return f": no better, beyond chance, than always giving the same answer, which is right for {share}"


def _class_by_class(accuracy: float, balanced: float | None, classes: Sequence[ClassFound]) -> str:
    """The balanced accuracy, where rare classes fare much worse than common ones or better, or it alone tells that
    the model has learnt something."""
    alone = bool(classes) and accuracy <= _commonest(classes)[1] and bool(_tells_apart(classes))
    if balanced is None or not (alone or abs(accuracy - balanced) >= TELLING_GAP):
        return ""
    beside = f", where one answer for all gives {_percent(1 / len(classes))}" if alone else ""
    return f" Averaged over classes, however rare, it is {_percent(balanced)} (balanced accuracy){beside}."


def _sure(body: dict[str, Any], name: str, what: str = "") -> str:
    """` (81 to 99 %, 27 test rows)`: the interval of a figure, and of `what` there were how many; what is known."""
    ends = dict_of(dict_of(body.get("intervals")).get("test")).get(name)
    low, high = map(number_of, ends) if isinstance(ends, list) and len(ends) == 2 else (None, None)
    count, told = number_of(dict_of(body.get("rows")).get("test")), []
    if low is not None and high is not None:
        told.append(share_span_words(low, high) if "accuracy" in name else f"{figure(low, 3)} to {figure(high, 3)}")
    if what and count:
        told.append(f"{count:,.0f} test {what.removesuffix('s') if count == 1 else what}")
    return f" ({', '.join(told)})" if told else ""


def _percent(share: float) -> str:
    """With three digits, and more of what is nearly all: `99.96 %` is not `100 %`."""
    words = f"{100 * share:.3g} %"
    return share_words(share, 0) if words == "100 %" else words

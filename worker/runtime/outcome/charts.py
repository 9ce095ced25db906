"""Charts of the results: each a table (columns, rows) that a page draws and a person downloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from torch import Tensor

from worker.runtime.data import Dataset, Part
from worker.runtime.outcome.chart import Chart, chart
from worker.runtime.outcome.curves import average_precision, precision_recall_curve, roc_area, roc_curve
from worker.runtime.outcome.group_charts import accuracy_by_group, error_by_group
from worker.runtime.outcome.intervals import stretches_of
from worker.runtime.outcome.probabilities import Probabilities
from worker.runtime.outcome.regression_charts import regression_charts

ROWS_SHOWN = 2000
"""Rows of the table per class."""
CLASSES_SHOWN = 50
"""Larger confusion matrices show the most frequent classes."""
OTHERS = "other classes"
"""What larger ones call all others; `harness/frontend/src/charts/confusion.js` leaves them out of its scale."""
CURVES_SHOWN = 20
CURVE_POINTS = 200
THRESHOLDS = np.arange(101) / 100
"""Between which the page of two classes lets people choose (`harness/frontend/src/charts/threshold.js`)."""
SAMPLES = 24
FEATURES_SHOWN = 8
BINS = 10
TELLING_LEAN = 0.02
"""From so much between mean confidence and accuracy on, a model is told to be too sure, or not sure enough."""


def values(standardised: Tensor, dataset: Dataset) -> NDArray[np.float64]:
    """Outputs on the scale of the data."""
    return standardised.double().numpy() * dataset.target_std + dataset.target_mean


def true_values(part: Part, dataset: Dataset) -> NDArray[np.float64]:
    """The numbers to predict: as the data has them, or as near as the standardised ones are."""
    return values(part.targets, dataset) if part.values is None else part.values.numpy()


def predicted_values(part: Part, outputs: Tensor, dataset: Dataset) -> NDArray[np.float64]:
    """What the model says of numbers, as the data has them."""
    predicted = values(outputs.squeeze(1), dataset)
    return predicted if part.base is None else predicted + part.base.numpy()


def charts(part: Part, outputs: Tensor, dataset: Dataset, features: pa.Table, split: str) -> list[Chart]:
    """All charts of the part `split`. `features`: what is known of its rows, in the same order."""
    if part.targets.is_floating_point():
        true, predicted = true_values(part, dataset), predicted_values(part, outputs, dataset)
        made = regression_charts(true, predicted, part.rows.numpy())
        stretches = stretches_of(dataset.moments[split]) if split in dataset.moments else None
        made.append(error_by_group(predicted - true, told_apart(part, features), stretches))
        error = np.abs(predicted - true)
        shown = np.stack([true, predicted, error], 1).tolist()
        described = moments_shown(dataset.moments[split]) if split in dataset.moments else features
        made += sample_charts(error, shown, ["true", "predicted", "error"], part, described)
    else:
        made = classification_charts(part, outputs, dataset, features)
    return [{**chart, "split": split} for chart in made]


def classification_charts(part: Part, outputs: Tensor, dataset: Dataset, features: pa.Table) -> list[Chart]:
    """Confusion, per class, ROC, PR, average precision, calibration, accuracy by group, samples."""
    probabilities, called = Probabilities(outputs), outputs.argmax(1)
    true, best, confidence = part.targets.numpy(), called.numpy(), probabilities.of_rows(called)
    names = list(dataset.classes)
    made = [confusion_chart(true, best, names), per_class_chart(true, best, names)]
    made += curve_charts(true, probabilities.of_class, names)
    made.append(calibration_chart(true == best, confidence))
    made.append(accuracy_by_group(true == best, told_apart(part, features)))
    confidence_in_true = probabilities.of_rows(part.targets)
    shown = [[names[a], names[b], float(probability)] for a, b, probability in zip(true, best, confidence, strict=True)]
    columns = ["true", "predicted", "confidence"]
    return made + sample_charts(1 - confidence_in_true, shown, columns, part, features)


def told_apart(part: Part, features: pa.Table) -> pa.Table:
    """What rows are grouped by: the features; of pictures the brightness, their mean (of bytes: 0 is black)."""
    if not part.inputs or part.inputs[0].ndim != 4:
        return features
    return pa.table({"brightness": [float(picture.float().mean()) for picture in part.inputs[0]]})


def confusion_chart(true: NDArray[np.int64], best: NDArray[np.int64], names: list[str]) -> Chart:
    """Rows: true class; columns: predicted class; cells: rows counted. Of many classes the rarer ones are one, so that
    each row and column has all that belong to it."""
    note, shown = "", list(names)
    place = np.arange(len(names))
    if len(names) > CLASSES_SHOWN:
        frequency = np.bincount(true, minlength=len(names))
        order = np.sort(np.argsort(-frequency, kind="stable")[:CLASSES_SHOWN])
        place = np.full(len(names), len(order))
        place[order] = np.arange(len(order))
        shown = [*(names[index] for index in order), OTHERS]
        note = f"The {CLASSES_SHOWN} most frequent of {len(names)} classes; the others are counted as if they were one."
    counts = np.zeros((len(shown), len(shown)), np.int64)
    np.add.at(counts, (place[true], place[best]), 1)
    rows = [[name, *map(int, line)] for name, line in zip(shown, counts, strict=True)]
    return chart("confusion_matrix", "Confusion matrix", "confusion", ["true \\ predicted", *shown], rows, note)


def per_class_chart(true: NDArray[np.int64], best: NDArray[np.int64], names: list[str]) -> Chart:
    """Precision, recall and F1 of every class, or of the most frequent `ROWS_SHOWN`."""
    hits = np.bincount(true[true == best], minlength=len(names))
    there, guessed = np.bincount(true, minlength=len(names)), np.bincount(best, minlength=len(names))
    order = np.sort(np.argsort(-there, kind="stable")[:ROWS_SHOWN])
    note = f"The {ROWS_SHOWN} most frequent of {len(names)} classes." if len(names) > ROWS_SHOWN else ""
    rows = []
    for index in order:
        precision = hits[index] / guessed[index] if guessed[index] else None
        recall = hits[index] / there[index] if there[index] else None
        both = there[index] + guessed[index]
        f1 = 2 * hits[index] / both if both else None
        figures = (None if x is None else float(x) for x in (precision, recall, f1))
        rows.append([names[index], int(there[index]), *figures])
    return chart("per_class", "Per class", "table", ["class", "rows", "precision", "recall", "f1"], rows, note)


def curve_charts(
    true: NDArray[np.int64], scores: Callable[[int], NDArray[np.float64]], names: list[str]
) -> list[Chart]:
    """ROC and PR, one class against the rest, with the areas under them; of two classes the rarer one's. `scores`: how
    probable the class of a number is for each row.

    The precision of the more frequent one is high whatever the model does.
    """
    counts = np.bincount(true, minlength=len(names))
    chosen = [index for index in np.argsort(-counts, kind="stable") if 0 < counts[index] < len(true)]
    if len(names) == 2:
        chosen = chosen[-1:]
    which = f"The {CURVES_SHOWN} most frequent of {len(names)} classes. " if len(chosen) > CURVES_SHOWN else ""
    roc, pr, areas = [], [], []
    thinned = False
    for index in sorted(chosen[:CURVES_SHOWN]):
        is_class, score, name = true == index, scores(int(index)), names[index]
        fpr, tpr, cuts, few = curve_points(roc_curve, is_class, score, moved=len(names) == 2)
        roc += [[name, *point] for point in zip(fpr, tpr, cuts, strict=True)]
        precision, recall, cuts, fewer = curve_points(precision_recall_curve, is_class, score, moved=len(names) == 2)
        pr += [[name, *point] for point in zip(recall, precision, cuts, strict=True)]
        thinned = thinned or few or fewer
        areas.append([name, int(counts[index]), average_precision(is_class, score), roc_area(is_class, score)])
    note = f"{which}Down-sampled to about {CURVE_POINTS} points per class." if thinned else which.rstrip()
    if len(areas) > 1:
        average, roc_auc = np.mean([row[2:] for row in areas], axis=0)
        which += f"Mean over these classes: average precision {average:.3f}, area under the ROC curve {roc_auc:.3f}."
    columns = ["class", "rows", "average_precision", "roc_auc"]
    return [
        chart("roc", "ROC", "curve", ["class", "fpr", "tpr", "threshold"], roc, note),
        chart("pr", "Precision and recall", "curve", ["class", "recall", "precision", "threshold"], pr, note),
        chart("average_precision", "Average precision", "table", columns, areas, which.rstrip()),
    ]


def curve_points(
    curve: Callable[..., tuple[NDArray[np.float64], ...]],
    is_class: NDArray[np.bool_],
    score: NDArray[np.float64],
    *,
    moved: bool,
) -> tuple[list[float], list[float], list[float], bool]:
    """(one axis, the other, threshold) of the points of a curve that are shown; whether some are left out.

    These are its corners. With `moved` also those of all `THRESHOLDS`: between two corners the thresholds are unknown.
    """
    first, second, cuts = curve(is_class, score, drop_intermediate=not moved)
    every = np.minimum(np.append(cuts, 1.0)[: len(first)], 1.0)
    corners = np.minimum(curve(is_class, score, drop_intermediate=True)[2], 1.0) if moved else every
    chosen = corners[thin(len(corners))]
    shown = np.isin(every, chosen)
    if moved:
        rising = np.unique(every)
        shown |= np.isin(every, rising[np.searchsorted(rising, THRESHOLDS)])
    return first[shown].tolist(), second[shown].tolist(), every[shown].tolist(), len(chosen) < len(corners)


def thin(count: int) -> NDArray[np.int64]:
    """At most CURVE_POINTS evenly spaced places out of `count`, both ends included."""
    return np.unique(np.linspace(0, count - 1, min(count, CURVE_POINTS)).round().astype(np.int64))


def calibration_chart(right: NDArray[np.bool_], confidence: NDArray[np.float64]) -> Chart:
    """How often the model is right when it says it is so sure."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    rows, gap = [], 0.0
    for index in range(BINS):
        inside = bins == index
        if inside.any():
            sure, share = float(confidence[inside].mean()), float(right[inside].mean())
            rows.append([f"{index / BINS:.1f}-{(index + 1) / BINS:.1f}", sure, share, int(inside.sum())])
            gap += abs(sure - share) * inside.mean()
    lean = float(confidence.mean() - right.mean())
    mood = "is right less often than it says" if lean > 0 else "is right more often than it says"
    note = f"Expected calibration error {gap:.3f}: its confidence is off by {100 * gap:.1f} points on average"
    note += f", and it {mood}." if abs(lean) >= TELLING_LEAN else "."
    return chart("calibration", "Calibration", "curve", ["bin", "confidence", "accuracy", "rows"], rows, note)


def moments_shown(moments: pa.Table) -> pa.Table:
    """Of forecasts: which moment, from how far, and what simple forecasts say; the series where there are several."""
    return moments if len(pc.unique(moments["series"])) > 1 else moments.drop_columns(["series"])


def sample_charts(
    badness: NDArray[np.float64], shown: list[list[Any]], columns: list[str], part: Part, features: pa.Table
) -> list[Chart]:
    """The rows with the largest and the smallest `badness`, with their first feature values.

    A row that is foretold from several moments stands there once: else the lists of a forecast are of a row or two.
    """
    order = np.argsort(-badness, kind="stable")
    named = [name for name in features.column_names if name != "name"][:FEATURES_SHOWN]
    numbers = part.rows.numpy()
    made = []
    for identity, title, ends, ordered in (
        ("worst_samples", "Worst samples", "furthest from", order),
        ("best_samples", "Best samples", "nearest to", order[::-1]),
    ):
        firsts = np.sort(np.unique(numbers[ordered], return_index=True)[1])
        chosen = ordered[firsts[:SAMPLES]]
        picked = features.take(pa.array(chosen)) if features.num_columns else features
        rows = []
        for place, index in enumerate(chosen):
            row = int(part.rows[index])
            name = picked["name"][place].as_py() if "name" in features.column_names else f"row {row + 1}"
            known = [text(picked[column][place].as_py()) for column in named]
            rows.append([row, name, *shown[index], *known])
        note = f"{len(rows):,} of {len(firsts):,} rows, what is {ends} the truth first."
        note += f" Of each row the forecast that is {ends} it." if len(firsts) < len(badness) else ""
        if identity == "best_samples" and "confidence" in columns and any(row[2] != row[3] for row in rows):
            note += " Even of these some are wrong."
        made.append(chart(identity, title, "samples", ["row", "name", *columns, *named], rows, note))
    return made


def text(value: Any) -> Any:
    """A feature value as JSON: numbers stay, all else becomes text."""
    return value if value is None or isinstance(value, bool | int | float) else str(value)

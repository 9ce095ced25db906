"""What to do next with a model: plain sentences out of its metrics, its classes and where its best epoch lay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.pages.results_read import number_of

GAP = 0.1
"""From this difference of accuracy or R² on, training and validation tell of rows learnt by heart."""
RECALL_LEAST = 0.5
"""A class of which less is found is named."""
ROWS_LEAST = 5
"""A class with fewer test rows tells nothing."""


def advice(
    metrics: Mapping[str, Mapping[str, Any]],
    classes: Sequence[Mapping[str, Any]] = (),
    *,
    beats_guessing: bool = True,
    best_epoch: float | None = None,
    epochs: float | None = None,
) -> list[str]:
    """Sentences, the most urgent first; empty where nothing stands out.

    `metrics`: by part (`train`, `val`, `test`) and name. `classes`: rows of the table per class, as mappings.
    `beats_guessing`: it is better than always giving the same answer. `best_epoch`: where the validation rows were
    best, if they were better than before; `epochs`: how many were asked for.
    """
    found = []
    if not beats_guessing:
        found.append(
            "It has not learnt anything useful yet. See the warnings of the data, and whether its columns can tell the "
            "answer at all; then try another model or a learning rate that was found by a test."
        )
    found += _gap(metrics)
    found += _weakest(classes)
    if best_epoch is not None and epochs and best_epoch > epochs - 1:
        found.append("Its last epoch was its best: more epochs may improve it further.")
    return found


def _gap(metrics: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Whether it knows the rows it was trained on much better than others."""
    for name, word in (("accuracy", "accuracy"), ("r2", "R²")):
        train, val = (number_of(metrics.get(part, {}).get(name)) for part in ("train", "val"))
        if train is not None and val is not None and train - val >= GAP:
            return [
                f"It knows the rows it was trained on much better than others ({word} {train:.3g} against {val:.3g}): "
                "more rows, a smaller model or more dropout help against that."
            ]
    return []


def _weakest(classes: Sequence[Mapping[str, Any]]) -> list[str]:
    """The class that is found least, where that is seldom."""
    told = [
        (recall, str(row.get("class")))
        for row in classes
        if (recall := number_of(row.get("recall"))) is not None and (number_of(row.get("rows")) or 0) >= ROWS_LEAST
    ]
    if not told or (least := min(told))[0] >= RECALL_LEAST:
        return []
    return [
        f"Of class '{least[1]}' it finds only {100 * least[0]:.3g} %: look at the worst examples below; more rows of "
        "this class would help."
    ]

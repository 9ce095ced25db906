"""What to do next with a model: plain sentences out of its metrics, its classes and where its best epoch lay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from harness.pages.results_read import number_of
from worker.words import counted, share_words

GAP = 0.1
"""From this difference of accuracy or R² on, training and validation tell of rows learnt by heart."""
RECALL_LEAST = 0.5
"""A class of which less is found is named."""
ROWS_LEAST = 5
"""A class with fewer test rows tells nothing."""
CLASSES_NAMED = 3
FAR_ROWS, FAR_SHARE, FAR_ERROR = 3, 0.02, 0.5
"""So few rows, and no larger share of them, that make more than this part of the squared error are told."""


def advice(
    metrics: Mapping[str, Mapping[str, Any]],
    classes: Sequence[Mapping[str, Any]] = (),
    *,
    beats_guessing: bool = True,
    worst: Sequence[tuple[str, float]] = (),
    rows: float | None = None,
    sample: str = "row",
    best_epoch: float | None = None,
    epochs: float | None = None,
) -> list[str]:
    """Sentences, the most urgent first; empty where nothing stands out.

    `metrics`: by part (`train`, `val`, `test`) and name. `classes`: rows of the table per class, as mappings.
    `beats_guessing`: it is better than always giving the same answer. `worst`: (name, error) of the test rows
    that a predicted number is off most for, the worst first; `rows`: how many test rows there are, `sample`: what one
    of them is called. `best_epoch`: where the validation rows were best, if they were better than before; `epochs`: how
    many were asked for.
    """
    found = []
    if not beats_guessing:
        found.append(
            "It has not learnt anything useful yet. See the warnings of the data, and whether its columns can tell the "
            "answer at all; then try another model, more epochs or another learning rate."
        )
    found += _far_rows(number_of(metrics.get("test", {}).get("rmse")), worst, rows)
    found += _gap(metrics, sample)
    found += _weakest(classes, sample) + _untested(classes, sample)
    if best_epoch is not None and epochs and best_epoch > epochs - 1:
        found.append("Its last epoch was its best: more epochs may improve it further.")
    return found


def _gap(metrics: Mapping[str, Mapping[str, Any]], sample: str) -> list[str]:
    """Whether it knows the rows it was trained on much better than others."""
    for name, word in (("accuracy", "accuracy"), ("r2", "R²")):
        train, val = (number_of(metrics.get(part, {}).get(name)) for part in ("train", "val"))
        if train is not None and val is not None and train - val >= GAP:
            return [
                f"It knows the {sample}s it was trained on much better than others ({word} {train:.3g} against "
                f"{val:.3g}): more {sample}s, a smaller model or more dropout help against that."
            ]
    return []


def _weakest(classes: Sequence[Mapping[str, Any]], sample: str) -> list[str]:
    """The class that is found least, where that is seldom, or all that are never found."""
    told = [
        (recall, str(row.get("class")))
        for row in classes
        if (recall := number_of(row.get("recall"))) is not None and (number_of(row.get("rows")) or 0) >= ROWS_LEAST
    ]
    if not told or (least := min(told))[0] >= RECALL_LEAST:
        return []
    found = f"only {100 * least[0]:.3g} %" if least[0] else "none"
    names = [f"'{name}'" for recall, name in sorted(told) if recall == least[0]]
    of, these = ("class", "this class") if len(names) == 1 else ("classes", "these classes")
    return [
        f"Of {of} {_some(names)} it finds {found}: look at the worst examples below; more {sample}s of {these} would "
        "help."
    ]


def _untested(classes: Sequence[Mapping[str, Any]], sample: str) -> list[str]:
    """Classes of which no test row is."""
    names = [f"'{row.get('class')}'" for row in classes if number_of(row.get("rows")) == 0]
    if not names:
        return []
    return [
        f"Nothing is known of how well it finds {_some(names)}: no test {sample} is of such a class. Add {sample}s."
    ]


def _some(names: Sequence[str]) -> str:
    """The first of them, and how many there are beside."""
    untold = len(names) - CLASSES_NAMED
    more = [counted(untold, "other")] if untold > 0 else []
    listed = [*names[:CLASSES_NAMED], *more]
    return " and ".join([", ".join(listed[:-1]), listed[-1]] if listed[1:] else listed)


def _far_rows(rmse: float | None, worst: Sequence[tuple[str, float]], rows: float | None) -> list[str]:
    """A few rows that make most of the error: a slip in the data more often than a fault of the model."""
    if not rmse or not rows:
        return []
    told = worst[: min(FAR_ROWS, int(FAR_SHARE * rows))]
    # By products: a power that no float holds is an error.
    share = sum(error * error for _, error in told) / (rmse * rmse * rows or math.inf)
    if not FAR_ERROR < share < math.inf:
        return []
    names, make = ", ".join(name for name, _ in told), "makes" if len(told) == 1 else "make"
    return [
        f"Of {rows:,.0f} test rows {names} {make} {share_words(min(1.0, share), 0)} of the squared error: see whether "
        "the target is a slip there (a unit, a digit too many), and correct it or leave such rows out."
    ]

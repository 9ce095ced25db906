"""Which column is the target, and which task it makes: guesses with their reasons. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.profile.target import CLASSIFICATION, PASSED_OVER, REGRESSION, more_classes
from codegen.profile.types import ColumnProfile, ColumnType, Finding, Severity
from worker.words import counted

MAX_WHOLE_CLASSES = 20
"""Whole numbers with more distinct values than this are amounts, unless the name says class."""
_FEWEST = 2
"""So few values are classes: of whole numbers always, of fractions where they repeat often."""
_CLASS_ROWS = 5
"""Rows per value that whole numbers need on average to be classes, where they are more."""
_FRACTION_ROWS = 10
"""Rows per value that fractions need on average: 1.5 and 2.75 in a short table are amounts that were seen twice."""
_SURE_NAMES = (
    "target", "label", "labels", "class", "classes", "y", "outcome", "response", "classification", "diagnosis",
)  # fmt: skip
_CLASS_NAMES = ("label", "labels", "class", "classes", "category", "classification", "species", "diagnosis")
_LIKELY_NAMES = (
    "income", "price", "saleprice", "sale_price", "medv", "survived", "churn", "default", "quality", "species",
    "category", "sentiment", "fraud", "is_fraud", "score", "rating", "result", "output", "salary", "cost", "rings",
)  # fmt: skip
_A_KIND = {
    ColumnType.CONSTANT: "a constant",
    ColumnType.IDENTIFIER: "an identifier",
    ColumnType.TEXT: "free text",
    ColumnType.DATE: "a date",
}
UNFIT = tuple(_A_KIND)
"""Types of columns that cannot be predicted."""


def guess_target(columns: Sequence[ColumnProfile], before: str | None = None) -> tuple[str | None, str]:
    """(column, reason): the one that was guessed `before`, while it can be predicted; else as `_guess` has it, and that
    the former cannot be."""
    fit = [column for column in columns if column.type not in UNFIT and column.unique > 1]
    found, why = _guess(columns, fit)
    if before == found or all(column.name != before for column in columns):
        return found, why
    if any(column.name == before for column in fit):
        return before, "guessed before types of columns were changed"
    return found, f"{why}; '{before}', which was guessed before types were changed, cannot be predicted as it is"


def _guess(columns: Sequence[ColumnProfile], fit: Sequence[ColumnProfile]) -> tuple[str | None, str]:
    """By name, else the last column that can be predicted."""
    by_name = {column.name.lower().replace(" ", "_"): column.name for column in reversed(fit)}
    for name in _SURE_NAMES:
        if name in by_name:
            return by_name[name], f"a column named '{by_name[name]}' is usually what is predicted"
    for column in fit:
        parts = column.name.lower().replace(" ", "_").rsplit("_", 1)
        if len(parts) == 2 and parts[1] in ("target", "label", "class"):
            return column.name, f"the name ends in '{parts[1]}'"
    for name in _LIKELY_NAMES:
        if name in by_name:
            return by_name[name], f"a column named '{by_name[name]}' is often what is predicted"
    if not fit:
        return None, "no column has the values of a class or an amount"
    last = fit[-1]
    if last.name == columns[-1].name:
        return last.name, "the last column, where tables usually have the target"
    return last.name, "the last column that holds a class or an amount"


def passed_over(columns: Sequence[ColumnProfile], target: str | None) -> list[Finding]:
    """The column that by its name should have been guessed as the target, but cannot be learned as it is."""
    for column in columns:
        named = column.name.lower().replace(" ", "_") in _SURE_NAMES
        ticked = column is columns[-1] and column.unique == 1 and column.missing > 0
        if column.name != target and (ticked or (named and (column.type in UNFIT or column.unique < 2))):
            what, meaning = _unfit_words(column)
            instead = f"'{target}' was taken instead" if target else "no other column can be predicted"
            return [
                Finding(
                    code=PASSED_OVER,
                    severity=Severity.DANGER,
                    message=f"'{column.name}' looks like the target, but {what}; {instead}.",
                    meaning=meaning,
                    column=column.name,
                )
            ]
    return []


def _unfit_words(column: ColumnProfile) -> tuple[str, str]:
    """(why a column cannot be the target, what to do)."""
    if column.unique < 2:
        one = "has only one value" if column.unique else "has no value"
        return one, f"Nothing can be learned about it. {more_classes(column)}, or choose another target."
    return (
        f"was read as {_A_KIND[column.type]} ({column.reason})",
        "Set its type to category or numeric if it is what you want to predict, or choose another target.",
    )


def are_classes(values: int, rows: int, *, whole: bool) -> bool:
    """Whether numbers of so many different values in so many rows are classes rather than amounts."""
    if values <= _FEWEST:
        return whole or rows >= _FRACTION_ROWS * values
    return whole and values <= MAX_WHOLE_CLASSES and rows >= _CLASS_ROWS * values


def guess_task(column: ColumnProfile, rows: int) -> tuple[str, str]:
    """(task, reason) for a target column."""
    kinds = counted(column.unique, "different value")
    if column.type is not ColumnType.NUMERIC:
        return CLASSIFICATION, f"the target is a {column.type.value} with {kinds}"
    whole = column.whole_numbers and column.unique_is_exact
    if are_classes(column.unique, rows, whole=whole):
        return CLASSIFICATION, f"the target is a {'whole ' if whole else ''}number with only {kinds}"
    if whole and rows >= _CLASS_ROWS * column.unique and column.name.lower() in _CLASS_NAMES:
        return CLASSIFICATION, f"the target is a whole number with {kinds}, and it is named like a class"
    return REGRESSION, f"the target is a number with {kinds}"

"""Whether a task on a target can be trained, and what speaks against it.

Pure; also used when a spec is resolved. Classes are texts: of a numeric target, `str(value)` of its packed values.
"""

from __future__ import annotations

import difflib

from codegen.profile.types import (
    ColumnProfile,
    ColumnType,
    DataKind,
    DataProblem,
    DatasetProfile,
    Finding,
    Severity,
)
from worker.words import counted, share_words

CLASSIFICATION, REGRESSION, IMAGES = "tabular_classification", "tabular_regression", "image_classification"
_CALLED = {
    CLASSIFICATION: f"{CLASSIFICATION} (predict a class)", REGRESSION: f"{REGRESSION} (predict a number)",
    IMAGES: f"{IMAGES} (pictures: predict a class)",
}  # fmt: skip
"""As the spec and as the form has it."""
PASSED_OVER = "target_passed_over"
"""Code of the finding that what looks like the target cannot be it."""
_NOTHING_TO_LEARN = ("one_class", "target_all_missing")
_OTHERS = 2
MANY_CLASSES = 100
LARGEST_AMOUNT = 1e100
MAX_CLASSES = 50_000
IMBALANCE = 0.05
"""A smallest class below this share of an even share is told."""


def task_hint(*tasks: str) -> str:
    """What to do where the task is another one."""
    return f"Set the task to {' or '.join(_CALLED[task] for task in tasks)}."


def target_problems(profile: DatasetProfile, target: str | None, task: str) -> list[DataProblem | Finding]:
    """What stands against `task` on `target`: a `DataProblem` makes training impossible, a `Finding` is a warning.

    `target` is ignored for pictures, whose class folders are the target. Pure: figures come from the profile.
    """
    if profile.kind is DataKind.IMAGES:
        if task != IMAGES:
            return [_problem("wrong_task", f"Pictures cannot be used for {task}.", task_hint(IMAGES))]
        return _class_problems(list(profile.classes), profile.rows, None, named_singles=True)
    if task == IMAGES:
        return [
            _problem(
                "wrong_task",
                "A table holds no pictures.",
                task_hint(CLASSIFICATION, REGRESSION),
            )
        ]
    column = profile.column(target) if target else None
    if column is None:
        return [_not_found(profile, target)]
    found = _usable_problems(profile, column, profile.rows)
    if any(isinstance(entry, DataProblem) for entry in found):
        return found
    if task == REGRESSION:
        return [*found, *_regression_problems(column)]
    counts = class_counts(profile, column)
    return [*found, *_classification_problems(column, counts, profile.rows - column.missing)]


def class_counts(profile: DatasetProfile, column: ColumnProfile) -> list[tuple[str, int]] | None:
    """(class, rows) of a column, most frequent first, or None where the profile does not list all of them."""
    if profile.target == column.name and profile.classes:
        return list(profile.classes)
    if column.unique_is_exact and len(column.top_values) == column.unique:
        return list(column.top_values)
    return None


def _problem(code: str, message: str, hint: str, column: str | None = None) -> DataProblem:
    return DataProblem(code=code, message=message, hint=hint, column=column)


def _not_found(profile: DatasetProfile, target: str | None) -> DataProblem:
    names = [column.name for column in profile.columns]
    if not target:
        return _problem("target_missing", "No target is set and none could be guessed.", "Name the column to predict.")
    close = difflib.get_close_matches(target, names, n=3, cutoff=0.5)
    hint = (
        f"Did you mean {' or '.join(repr(name) for name in close)}?" if close else f"Columns: {', '.join(names[:20])}."
    )
    return _problem("target_not_found", f"There is no column '{target}'.", hint, target)


def more_classes(column: ColumnProfile) -> str:
    """What to do about a target of one value."""
    if column.unique and column.missing:
        return "If an empty cell means something, write a word for it, such as 'no'"
    return "Add rows of the other classes"


def unlearnable(profile: DatasetProfile) -> DataProblem | None:
    """Why nothing can be learned while the target is left open: it, or what looks like it, has one value or none."""
    passed = next((found.column for found in profile.warnings if found.code == PASSED_OVER), None)
    column = profile.column(passed) if passed else None
    if column is not None and column.unique < 2 and profile.target != column.name:
        values = f"only one value ('{column.top_values[0][0]}')" if column.top_values else "no value"
        return _problem(
            "one_class",
            f"'{column.name}' looks like the target, but has {values}: there is nothing to tell apart.",
            f"{more_classes(column)}, or name the column to predict{_others(profile, column.name)}.",
            column.name,
        )
    if profile.target is None and profile.kind is DataKind.TABLE:
        return None
    found = target_problems(profile, profile.target, profile.task or CLASSIFICATION)
    return next((one for one in found if isinstance(one, DataProblem) and one.code in _NOTHING_TO_LEARN), None)


def _others(profile: DatasetProfile, target: str) -> str:
    """Columns that may be the target instead, the last ones first."""
    unfit = (ColumnType.CONSTANT, ColumnType.IDENTIFIER, ColumnType.TEXT, ColumnType.DATE)
    names = [column.name for column in profile.columns if column.type not in unfit and column.unique > 1]
    shown = [f"'{name}'" for name in reversed(names) if name != target][:_OTHERS]
    return f", such as {' or '.join(shown)}" if shown else ""


def _usable_problems(profile: DatasetProfile, column: ColumnProfile, rows: int) -> list[DataProblem | Finding]:
    name = column.name
    if column.missing == rows:
        return [
            _problem(
                "target_all_missing",
                f"Every value of '{name}' is missing.",
                f"Choose another target{_others(profile, name)}.",
                name,
            )
        ]
    if column.unique == 1:
        value = f" ('{column.top_values[0][0]}')" if column.top_values else ""
        return [
            _problem(
                "one_class",
                f"'{name}' has only one value{value}: there is nothing to tell apart.",
                f"{more_classes(column)}, or choose another target{_others(profile, name)}.",
                name,
            )
        ]
    if not column.missing:
        return []
    share = column.missing / rows
    return [
        Finding(
            code="target_missing_values",
            severity=Severity.DANGER if share > 0.5 else Severity.WARNING,
            message=f"'{name}' has no value in {column.missing:,} of {counted(rows, 'row')} ({share_words(share)}).",
            meaning="Rows without a target teach nothing: they are left out of training and of all figures.",
            column=name,
        )
    ]


def _regression_problems(column: ColumnProfile) -> list[DataProblem | Finding]:
    if column.type is ColumnType.NUMERIC:
        return _scale_problems(column)
    return [
        _problem(
            "target_not_numeric",
            f"'{column.name}' is not a number ({column.type.value}: {column.reason}), so it cannot be "
            "predicted as an amount.",
            f"Set the task to {_CALLED[CLASSIFICATION]}, or the column's type to numeric if its words are mistakes.",
            column.name,
        )
    ]


def _scale_problems(column: ColumnProfile) -> list[DataProblem | Finding]:
    """Amounts whose squares a computer cannot hold: the spread would come out as infinite or as nothing."""
    low, high = column.minimum, column.maximum
    if low is None or high is None:
        return []
    if max(abs(low), abs(high)) <= LARGEST_AMOUNT and high - low >= 1 / LARGEST_AMOUNT:
        return []
    return [
        _problem(
            "target_out_of_scale",
            f"The values of '{column.name}' run from {low:.3g} to {high:.3g}: their squares cannot be computed.",
            "Write the column in another unit, e.g. divided by a power of ten, or as its logarithm.",
            column.name,
        )
    ]


def _classification_problems(
    column: ColumnProfile, counts: list[tuple[str, int]] | None, rows: int
) -> list[DataProblem | Finding]:
    if column.type is ColumnType.NUMERIC and not column.whole_numbers and column.unique > MANY_CLASSES:
        return [
            _problem(
                "target_is_amount",
                f"'{column.name}' holds {column.unique:,} different fractions: an amount, not a class.",
                task_hint(REGRESSION),
                column.name,
            )
        ]
    if column.unique * 2 > rows or column.unique > MAX_CLASSES:
        return [
            _problem(
                "too_many_classes",
                f"'{column.name}' has {counted(column.unique, 'class', 'classes')} in {counted(rows, 'row')}: too few "
                "rows each to learn from.",
                f"Choose another target, join classes, or set the task to {_CALLED[REGRESSION]} if it is an amount.",
                column.name,
            )
        ]
    if counts is not None:
        return _class_problems(counts, rows, column.name, named_singles=False)
    return [_many_classes(column.unique, column.name)] if column.unique > MANY_CLASSES else []


def _class_problems(
    counts: list[tuple[str, int]], rows: int, column: str | None, *, named_singles: bool
) -> list[DataProblem | Finding]:
    if len(counts) < 2:
        return [
            _problem(
                "one_class",
                f"There is only one class ('{counts[0][0]}')." if counts else "There is no class.",
                "Add examples of the other classes" + (", each class in its own folder." if column is None else "."),
                column,
            )
        ]
    found: list[DataProblem | Finding] = []
    if len(counts) > MANY_CLASSES:
        found.append(_many_classes(len(counts), column))
    single = [name for name, count in counts if count == 1]
    if single:
        found.append(_single_samples(single, column, "picture" if named_singles else "row"))
    found.extend(_imbalance(counts, rows, column))
    return found


def _many_classes(count: int, column: str | None) -> Finding:
    return Finding(
        code="many_classes",
        severity=Severity.WARNING,
        message=f"There are {count:,} classes.",
        meaning="The last layer grows with the classes, tables and matrices are cut to the most frequent ones, and "
        "each class needs several examples. Join rare classes if they need not be told apart.",
        column=column,
    )


def _single_samples(single: list[str], column: str | None, unit: str) -> Finding:
    shown = ", ".join(f"'{name}'" for name in single[:10]) + (", ..." if len(single) > 10 else "")
    return Finding(
        code="single_sample_class",
        severity=Severity.WARNING,
        message=f"{counted(len(single), 'class has', 'classes have')} one {unit} only: {shown}.",
        meaning="It can be either learned from or tested with, not both: the figures say nothing about this class. "
        "Add examples, or leave the class out.",
        column=column,
    )


def _imbalance(counts: list[tuple[str, int]], rows: int, column: str | None) -> list[Finding]:
    (most, largest), (least, smallest) = counts[0], counts[-1]
    even = rows / len(counts)
    share = largest / max(1, rows)
    if smallest >= IMBALANCE * even * 2 and share < 0.9:
        return []
    danger = smallest < IMBALANCE * even * 0.2 or share >= 0.95
    return [
        Finding(
            code="imbalanced_target",
            severity=Severity.DANGER if danger else Severity.WARNING,
            message=f"The classes are uneven: '{most}' has {largest:,} of {rows:,} ({share_words(share)}), "
            f"'{least}' {smallest:,} ({share_words(smallest / max(1, rows), 2)}).",
            meaning=f"Always answering '{most}' is right in {share_words(share)} of all cases: judge by macro F1 and "
            "the table per class, not by accuracy alone.",
            column=column,
        )
    ]

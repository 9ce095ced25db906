"""From spec and profile to what is predicted from what: task, target, inputs, classes. Checks every name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from codegen import forecast as forecasts
from codegen.notes import Notes
from codegen.profile.target import REGRESSION, class_counts, target_problems, unlearnable
from codegen.profile.text_form import shape_form
from codegen.profile.types import NUMBER_PARTS, ColumnProfile, ColumnType, DataKind, DataProblem, DatasetProfile
from codegen.spec import Task, TaskSpec
from codegen.split_by import SplitBy, split_by
from codegen.task import UNUSED, table_task
from codegen.types import SpecError

LEAST_ROWS = 10
TOPICS, TOPICS_TOGETHER = 128, 256
"""Numbers at most that tell what a column of text is about, and those of all columns."""
LEAST_TOPICS, ROWS_PER_TOPIC = 8, 200
SCORES, SCORES_TOGETHER = 20, 64
"""Numbers at most that tell what a column of text says of the target, one per class, and those of all columns."""
TASK_CODES = ("wrong_task", "target_not_numeric", "target_is_amount")
"""Problems of the task rather than of the target."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What is predicted from what."""

    task: Task
    target: str
    rows: int
    """Rows with a target."""
    classes: tuple[tuple[str, int], ...]
    """(class, rows) as far as the profile lists them."""
    outputs: int
    features: tuple[str, ...]
    """Columns in use."""
    shape: dict[str, Any]
    """The spec's `shape`, for pictures without the size."""
    split_by: SplitBy
    """How rows are chosen for the parts."""
    data: dict[str, Any] = field(default_factory=dict)
    """What more the spec's `data` says: of a forecast."""
    examples_each: int = 1
    """Rows to train on for each row of the data."""


def read(spec: TaskSpec, profile: DatasetProfile, notes: Notes) -> Reading:
    """Decide task, target and inputs. Raises `SpecError` with every problem found."""
    if profile.kind is DataKind.IMAGES:
        return _read_images(spec, profile, notes)
    target = _target(spec, profile, notes)
    task = table_task(spec, profile, target, notes)
    if task is Task.FORECAST:
        return _read_forecast(spec, profile, target, notes)
    forecasts.no_forecast_check(spec, task, notes)
    division = split_by(spec, profile, target.name, notes)
    columns = _features(spec, profile, target.name, division, notes)
    rows = profile.rows - target.missing
    _judge(profile, target.name, task, notes)
    if rows:
        _check_rows(rows, notes)
    notes.stop_if_wrong()
    classes: tuple[tuple[str, int], ...] = ()
    outputs = 1
    if task is Task.TABULAR_CLASSIFICATION:
        counts = class_counts(profile, target) or []
        classes, outputs = tuple((class_name(name), rows) for name, rows in counts), target.unique
    shape = table_shape(columns, rows, outputs)
    _tell_words(shape, target.name, rows, notes)
    shape |= {"target": target.name, "outputs": outputs, "classes": _class_order(classes)}
    shape |= shape_form(profile.form, target.name)
    return Reading(
        task=task,
        target=target.name,
        rows=rows,
        classes=classes,
        outputs=outputs,
        features=tuple(column.name for column in columns),
        shape=shape,
        split_by=division,
    )


def table_shape(columns: list[ColumnProfile], rows: int, outputs: int = 1) -> dict[str, Any]:
    """Names of inputs by kind, and of the numbers they give, in the order of the program's data.py."""
    of = {kind: [column for column in columns if column.type is kind] for kind in ColumnType}
    categorical = [*of[ColumnType.CATEGORY], *of[ColumnType.IDENTIFIER]]
    features: list[str] = []
    for kind, parts in NUMBER_PARTS.items():
        for column in of[kind]:
            for place, part in enumerate(parts):
                if part not in column.same_parts:
                    features.append(f"{column.name}: {part}" if part else column.name)
                if column.missing and place == 0:
                    features.append(f"{column.name}: missing")
    texts = [column.name for column in of[ColumnType.TEXT]]
    of_words = {"topics": topics_of_a_text(rows, len(texts)), "scores": scores_of_a_text(outputs, len(texts))}
    for name in texts:
        features += [
            f"{name}: {kind[:-1]} {number}" for kind, count in of_words.items() for number in range(1, count + 1)
        ]
    return {
        "numeric": [column.name for column in of[ColumnType.NUMERIC]],
        "dates": [column.name for column in of[ColumnType.DATE]],
        "texts": texts,
        **(of_words if texts else {}),
        "indicators": [column.name for kind in NUMBER_PARTS for column in of[kind] if column.missing],
        "spelling": {column.name: column.spelling for column in columns if column.spelling},
        "categorical": [column.name for column in categorical],
        "features": features,
        "cardinalities": [min(column.unique, 10_000) + 1 + (column.missing >= 2) for column in categorical],
    }


def topics_of_a_text(rows: int, texts: int) -> int:
    """How many topics each of so many columns of text has, at most: fewer where there are few rows."""
    share = max(LEAST_TOPICS, min(TOPICS, TOPICS_TOGETHER // max(1, texts)))
    return max(1, min(share, rows // (ROWS_PER_TOPIC * max(1, texts))))


def scores_of_a_text(outputs: int, texts: int) -> int:
    """How many scores each of so many columns of text has: one per class, of two classes and of a number one alone."""
    return 1 if outputs <= 2 else min(outputs, SCORES, max(1, SCORES_TOGETHER // max(1, texts)))


def _tell_words(shape: dict[str, Any], target: str, rows: int, notes: Notes) -> None:
    if not shape["texts"]:
        return
    each = " each" if len(shape["texts"]) > 1 else ""
    is_less = shape["topics"] < topics_of_a_text(10**9, len(shape["texts"]))
    few = f"; {rows:,} rows bear no more" if is_less else ""
    names = ", ".join(shape["texts"])
    reason = f"numbers at most that the words of {names} become{each}: which occur together{few}"
    notes.note("shape.topics", shape["topics"], reason)
    reason = f"numbers beside them{each}: what single words of {names} say of {target}"
    notes.note("shape.scores", shape["scores"], reason)


def _read_forecast(spec: TaskSpec, profile: DatasetProfile, target: ColumnProfile, notes: Notes) -> Reading:
    """Windows of the rows before it for each row; other columns as they are when the forecast is made."""
    _judge(profile, target.name, Task.FORECAST, notes)
    found = forecasts.forecast_of(spec, profile, target.name, notes)
    if found is None:
        notes.stop_if_wrong()
        raise SpecError(notes.problems)
    series, rows = found.series, profile.rows - target.missing
    division = SplitBy(by="time", column=series.time)
    beside = {series.time, series.by, target.name}
    columns = _features(spec, profile, target.name, division, notes)
    unfit = [column.name for column in columns if column.type in forecasts.UNFIT and column.name not in beside]
    for name in unfit:
        notes.note("data.features", f"without {name}", "left out: a forecast learns from numbers and categories")
    columns = [column for column in columns if column.name not in (*beside, *unfit)]
    known = forecasts.known_ahead(spec, target.name, [column.name for column in columns], beside, notes)
    named = [column for column in profile.columns if column.name == series.by]
    columns += [replace(column, type=ColumnType.CATEGORY) for column in named]
    notes.stop_if_wrong()
    return Reading(
        task=Task.FORECAST,
        target=target.name,
        rows=rows,
        classes=(),
        outputs=1,
        features=tuple(column.name for column in columns),
        shape=forecasts.shape_of(found, target, rows, table_shape(forecasts.when_made(columns, known), rows))
        | shape_form(profile.form, target.name),
        split_by=division,
        data={"time": series.time, "horizon": found.horizon, "history": found.history}
        | ({"series": series.by} if series.by else {})
        | ({"known": known} if known else {}),
        examples_each=found.steps_each,
    )


def _read_images(spec: TaskSpec, profile: DatasetProfile, notes: Notes) -> Reading:
    task = notes.choose("task", spec.task, Task.IMAGE_CLASSIFICATION, "the dataset holds pictures in class folders")
    if spec.data.target not in ("auto", "label"):
        notes.problem("data.target", "pictures have no columns; their class folders are the target, leave it `auto`")
    if spec.data.features != "auto" or spec.data.exclude:
        notes.problem("data.features", "pictures have no columns to choose from; leave it `auto`")
    images = profile.images
    if images is None:
        raise SpecError([("data.dataset", "the profile says nothing about the pictures; read the dataset again")])
    forecasts.no_forecast_check(spec, task, notes)
    division = split_by(spec, profile, "label", notes)
    _judge(profile, None, task, notes)
    _check_rows(profile.rows, notes)
    notes.stop_if_wrong()
    mean, std = list(images.channel_mean) or [0.5], list(images.channel_std) or [0.25]
    shape = {
        "channels": images.channels,
        "classes": _class_order(profile.classes),
        "outputs": len(profile.classes),
        "channel_mean": (mean * images.channels)[: images.channels],
        "channel_std": [value or 1.0 for value in (std * images.channels)[: images.channels]],
    }
    return Reading(
        task=Task.IMAGE_CLASSIFICATION,
        target="label",
        rows=profile.rows,
        classes=profile.classes,
        outputs=len(profile.classes),
        features=(),
        shape=shape,
        split_by=division,
    )


def _target(spec: TaskSpec, profile: DatasetProfile, notes: Notes) -> ColumnProfile:
    guess = profile.target or ""
    if spec.data.target == "auto" and (problem := unlearnable(profile)):
        notes.problem("data.target", f"{problem.message} {problem.hint}")
        raise SpecError(notes.problems)
    name = notes.choose("data.target", spec.data.target, guess, profile.target_reason or "the profile's guess")
    column = profile.column(name)
    if column is None:
        _judge(profile, name, Task.TABULAR_CLASSIFICATION, notes)
        raise SpecError(notes.problems)
    if name in spec.data.exclude:
        notes.problem("data.exclude", f"names the target {name!r}; take it out of the list")
    if spec.data.features != "auto" and name in spec.data.features:
        notes.problem("data.features", f"names the target {name!r}; take it out of the list")
    return column


def _judge(profile: DatasetProfile, target: str | None, task: Task, notes: Notes) -> None:
    """Note what the profile holds against this task on this target."""
    for found in target_problems(profile, target, REGRESSION if task is Task.FORECAST else task):
        if isinstance(found, DataProblem):
            field = "task" if found.code in TASK_CODES else "data.target"
            notes.problem(field, f"{found.message} {found.hint}")
        else:
            notes.note("data.target", target or "class folders", f"{found.message} {found.meaning}")


def _features(
    spec: TaskSpec, profile: DatasetProfile, target: str, division: SplitBy, notes: Notes
) -> list[ColumnProfile]:
    names = [column.name for column in profile.columns]
    for name, wanted in (("data.exclude", spec.data.exclude), ("data.features", spec.data.features)):
        unknown = [name for name in wanted if name not in names] if wanted != "auto" else []
        if unknown:
            notes.problem(
                name, f"no column named {', '.join(map(repr, unknown))}; the columns are {', '.join(names[:20])}"
            )
    useful = [column for column in profile.columns if column.name != target and column.name not in spec.data.exclude]
    for column in useful:
        if column.type in UNUSED and spec.data.features == "auto":
            notes.note("data.features", f"without {column.name}", f"left out: {UNUSED[column.type]}")
    if spec.data.features == "auto":
        chosen = [column for column in useful if column.type not in UNUSED]
        if division.by == "group" and any(column.name == division.column for column in chosen):
            chosen = [column for column in chosen if column.name != division.column]
            reason = "left out: it names the groups of the split, and new rows are of other groups; list it to keep it"
            notes.note("data.features", f"without {division.column}", reason)
        notes.note("data.features", [column.name for column in chosen], "all columns that carry something")
    else:
        chosen = [column for column in useful if column.name in spec.data.features]
        constant = [column.name for column in chosen if column.type is ColumnType.CONSTANT]
        if constant:
            notes.problem("data.features", f"{', '.join(constant)}: {UNUSED[ColumnType.CONSTANT]}; take it out")
    if not chosen:
        notes.problem("data.features", "no column is left to learn from; allow more columns or check their types")
    return chosen


def class_name(text: str) -> str:
    """Name of a class as data.py writes it: whole numbers without a fraction."""
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() and "." in text else text


def natural_order(name: str) -> tuple[int, float, str]:
    """Sort key that puts '2' before '10', as data.py has it."""
    try:
        number = float(name)
    except ValueError:
        return (1, 0.0, name)
    return (0, number, name) if number == number else (1, 0.0, name)


def _class_order(classes: tuple[tuple[str, int], ...]) -> list[str]:
    """Names as the program numbers them, however frequent they are."""
    return sorted((name for name, _ in classes), key=natural_order)


def _check_rows(rows: int, notes: Notes) -> None:
    if rows < LEAST_ROWS:
        notes.problem("data.dataset", f"only {rows} usable rows; at least {LEAST_ROWS} are needed to train and check")

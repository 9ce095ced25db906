"""What is to be learned of a table: as a person wishes, else what it looks like."""

from __future__ import annotations

from codegen import forecast as forecasts
from codegen.notes import Notes
from codegen.profile.target_guess import guess_task
from codegen.profile.types import ColumnProfile, ColumnType, DatasetProfile
from codegen.spec import Task, TaskSpec

UNUSED = {
    ColumnType.IDENTIFIER: "nearly every row has its own value: nothing to learn from",
    ColumnType.CONSTANT: "it has one value or none: nothing to learn from",
}


def table_task(spec: TaskSpec, profile: DatasetProfile, target: ColumnProfile, notes: Notes) -> Task:
    """The wish, else a guess with its reason in `notes`."""
    guess, reason = _guess(spec, profile, target)
    return Task(notes.choose("task", spec.task, guess, reason))


def task_guessed(profile: DatasetProfile) -> tuple[str, str]:
    """(task, reason) of data of which nothing is said but what its profile holds; empty where there is no guess."""
    target = profile.column(profile.target) if profile.target else None
    if target is None or not profile.task:
        return profile.task or "", profile.task_reason
    return _guess(TaskSpec(), profile, target)


def _guess(spec: TaskSpec, profile: DatasetProfile, target: ColumnProfile) -> tuple[Task, str]:
    guess, reason = guess_task(target, profile.rows)
    if profile.task and profile.target == target.name:
        guess, reason = profile.task, profile.task_reason or reason
    useful = _useful(spec, profile, target.name)
    if spec.task == "auto" and (why := forecasts.unasked(spec, profile, target, guess, useful)):
        guess, reason = Task.FORECAST, why
    return Task(guess), reason


def _useful(spec: TaskSpec, profile: DatasetProfile, target: str) -> list[str]:
    """Columns that a model would learn from."""
    return [
        column.name
        for column in profile.columns
        if column.name not in (target, *spec.data.exclude)
        and (column.type not in UNUSED if spec.data.features == "auto" else column.name in spec.data.features)
    ]

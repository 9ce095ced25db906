"""The form of a spec for a dataset: inputs with their choices; descriptions come from the schema itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from codegen.profile.types import ColumnProfile, ColumnType, DataKind, DatasetProfile
from codegen.resolve import CLASS_METRICS, NUMBER_METRICS
from codegen.spec import MODE_WORDS, NUMBER_TASKS, Metric, Task, TaskSpec
from codegen.task import UNUSED
from harness.datasets.models import WeightsFile
from harness.pages.spec_layout import GROUPS, OF_FORECASTS, WHOLE_NUMBERS, spec_label
from harness.pages.words import NAME_WORDS, TASK_WORDS
from worker.words import size_words


@dataclass(frozen=True, kw_only=True)
class SpecField:
    """One input of the form."""

    path: str
    """Dotted name in the spec."""
    label: str
    kind: str
    """`choice`, `number`, `text`, `list` (comma-separated), `columns` (to tick) or `moment` (in the reader's zone)."""
    hint: str
    choices: tuple[tuple[str, str], ...] = ()
    headed: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = ()
    """(head, tasks that they fit, choices below it), where not all choices fit every task; `choices` has all of them.
    """
    offered: tuple[tuple[str, str], ...] = ()
    """(value, what it is) of what may be typed: other values as well."""
    columns: tuple[tuple[str, str], ...] = ()
    """(name, what it holds) of each that can be ticked."""
    is_whole: bool = False
    """Of a number: without a fraction."""
    bounds: tuple[tuple[str, float], ...] = ()
    """`ge`, `gt`, `le`, `lt` of the schema, for a check before anything is sent."""

    @property
    def id(self) -> str:
        """Id of the input element."""
        return "spec-" + self.path.replace(".", "-").replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class SpecGroup:
    """A named group of inputs; all but the first ones are folded."""

    title: str
    fields: tuple[SpecField, ...]
    is_open: bool = False


_OF_COLUMNS = {"data.target", "data.features", "data.exclude", "data.split.by", "data.split.column"}


def spec_groups(
    profile: DatasetProfile, weights: Sequence[WeightsFile] = (), device_models: Collection[str] = ()
) -> list[SpecGroup]:
    """The form for a dataset of this profile; `weights`: what a job of its project may start from; `device_models`:
    what the pool has."""
    is_table = profile.kind == DataKind.TABLE
    hidden = {"training.augment"} if is_table else set(_OF_COLUMNS)
    hidden |= set() if _dates(profile) else set(OF_FORECASTS)
    hidden |= set() if any(series.by for series in profile.series) else {"data.series"}
    hidden |= set() if len(_known_ahead(profile)) > 1 else {"data.known"}
    hidden |= set() if len(device_models) > 1 else {"resources.device_model"}
    return [
        SpecGroup(
            title=title,
            is_open=is_open,
            fields=tuple(_field(path, profile, weights, device_models) for path in paths if path not in hidden),
        )
        for title, is_open, paths in GROUPS
    ]


def _info(path: str) -> FieldInfo | None:
    model: type[BaseModel] = TaskSpec
    info: FieldInfo | None = None
    for name in path.split("."):
        info = model.model_fields.get(name)
        if info is None:
            return None
        inner = next((part for part in (info.annotation, *get_args(info.annotation)) if _is_model(part)), None)
        model = inner or model
    return info


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _field(
    path: str, profile: DatasetProfile, weights: Sequence[WeightsFile], device_models: Collection[str]
) -> SpecField:
    info = _info(path)
    label = spec_label(path)
    hint = (info.description or "") if info else ""
    choices = _choices(path, profile, info)
    if choices:
        headed = _headed(choices) if path == "objective.metric" and profile.kind == DataKind.TABLE else ()
        return SpecField(path=path, label=label, hint=hint, kind="choice", choices=choices, headed=headed)
    if path == "resources.device_model":
        models = tuple((name, name) for name in sorted(device_models))
        return SpecField(path=path, label=label, hint=hint, kind="choice", choices=models)
    if path == "data.exclude":
        hint = "The target cannot be left out."
        return SpecField(path=path, label=label, hint=hint, kind="columns", columns=_columns(profile))
    if path == "data.known":
        return SpecField(path=path, label=label, hint=hint, kind="columns", columns=_known_ahead(profile))
    if path == "data.features":
        return SpecField(path=path, label=label, hint=f"{hint} Separate names by commas.", kind="list")
    if path == "budget.deadline":
        return SpecField(path=path, label=label, hint="Left open, nothing is promised.", kind="moment")
    if path == "model.weights":
        return SpecField(path=path, label=label, hint=hint, kind="text", offered=_offered(weights))
    if path == "name":
        return SpecField(path=path, label=label, hint=hint, kind="text")
    whole = path.rsplit(".", 1)[-1] in WHOLE_NUMBERS
    bounds = tuple(sorted(_bounds(info).items()))
    return SpecField(path=path, label=label, hint=hint, kind="number", is_whole=whole, bounds=bounds)


def _offered(weights: Sequence[WeightsFile]) -> tuple[tuple[str, str], ...]:
    """By name, or by id where several have it."""
    named = Counter(one.name for one in weights)
    return tuple(
        (
            one.name if named[one.name] == 1 else one.pk,
            f"{one.name}, {one.parameters:,} numbers, {size_words(one.size_bytes)}",
        )
        for one in weights
    )


def _columns(profile: DatasetProfile) -> tuple[tuple[str, str], ...]:
    return tuple(
        (column.name, f"{column.type}: left out already" if column.type in UNUSED else str(column.type))
        for column in profile.columns
    )


def _known_ahead(profile: DatasetProfile) -> tuple[tuple[str, str], ...]:
    """Columns that a forecast may be told of the moments to come; the target too, for another may be chosen."""
    kinds = (ColumnType.NUMERIC, ColumnType.CATEGORY)
    named = {series.by for series in profile.series}
    return tuple(
        (column.name, str(column.type))
        for column in profile.columns
        if column.type in kinds and column.name not in named
    )


def _bounds(info: FieldInfo | None) -> dict[str, float]:
    """The limits that the schema sets on a number, wherever in `Annotated[...] | Literal[...]` they stand."""
    found: dict[str, float] = {}
    parts: list[Any] = [*info.metadata, info.annotation] if info else []
    while parts:
        part = parts.pop()
        parts += [*get_args(part), *getattr(part, "metadata", ())]
        found |= {
            name: getattr(part, name) for name in ("ge", "gt", "le", "lt") if _is_number(getattr(part, name, None))
        }
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def value_words(path: str, value: object) -> str | None:
    """A value as the form calls it; None where it does so by the value itself."""
    if path == "task":
        return TASK_WORDS.get(str(value))
    if path == "mode":
        return None  # there each choice comes with a sentence
    return dict(_named(path, _info(path))).get(str(value).lower() if isinstance(value, bool) else str(value))


def _choices(path: str, profile: DatasetProfile, info: FieldInfo | None) -> tuple[tuple[str, str], ...]:
    if path == "task":
        kinds = [task for task in Task if (task == Task.IMAGE_CLASSIFICATION) == (profile.kind == DataKind.IMAGES)]
        kinds = [task for task in kinds if task != Task.FORECAST or _dates(profile)]
        return tuple((str(task), TASK_WORDS[str(task)]) for task in kinds)
    if path == "objective.metric" and profile.kind == DataKind.IMAGES:
        return tuple(choice for choice in _named(path, info) if choice[0] in CLASS_METRICS)
    if path in {"data.target", "data.split.column"}:
        return tuple((column.name, column.name) for column in profile.columns if column.type != ColumnType.CONSTANT)
    if path == "data.time":
        return tuple((column.name, column.name) for column in _dates(profile))
    if path == "data.series":
        return tuple(dict.fromkeys((one.by, one.by) for one in profile.series if one.by))
    return _named(path, info)


def _headed(choices: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...]:
    """Metrics by what is predicted."""
    groups = (
        ("for classes", set(Task) - NUMBER_TASKS, CLASS_METRICS),
        ("for a number", NUMBER_TASKS, NUMBER_METRICS),
    )
    return tuple(
        (head, " ".join(sorted(tasks)), tuple(choice for choice in choices if choice[0] in metrics))
        for head, tasks, metrics in groups
    )


def _dates(profile: DatasetProfile) -> list[ColumnProfile]:
    return [column for column in profile.columns if column.type == ColumnType.DATE]


def _named(path: str, info: FieldInfo | None) -> tuple[tuple[str, str], ...]:
    """Choices that are the same for all data."""
    if path == "objective.metric":
        return tuple((str(metric), NAME_WORDS.get(metric, str(metric).replace("_", " "))) for metric in Metric)
    if path == "mode":
        return tuple((mode, f"{mode}: {words}") for mode, words in MODE_WORDS.items())
    if info and bool in get_args(info.annotation):
        return ("true", "yes"), ("false", "no")
    values = [value for value in get_args(info.annotation) if isinstance(value, str)] if info else []
    return tuple((value, value.replace("_", " ")) for value in values if value != "auto")

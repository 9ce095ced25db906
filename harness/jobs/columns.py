"""Columns of a list of jobs: which there are, what they ask of the database, and the value that each job has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from django.db.models import FloatField, IntegerField, OuterRef, QuerySet, Subquery, Sum, TextField, Value
from django.db.models.expressions import Combinable
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast, NullIf
from pydantic import BaseModel

from codegen.catalog import FAMILIES
from codegen.spec import TaskSpec
from harness.errors import Invalid
from harness.jobs.models import DeviceUse, Job, JobAttempt

COLUMNS_MAX = 40
METRIC, SPEC = "metric:", "spec:"
"""In front of a metric's key (its newest value) and of a spec field's dotted name (its resolved value)."""
FIELDS = {
    "id": "pk",
    "state": "state",
    "task": "task",
    "family": "family",
    "dataset": "dataset.name",
    "project": "project.slug",
    "owner": "owner.username",
    "metric_name": "metric_name",
    "metric_best": "metric_best",
    "metric_test": "metric_test",
    "epoch": "epoch",
    "epochs": "epochs",
    "step": "step",
    "samples_per_s": "samples_per_s",
    "run_s": "run_s",
    "restarts": "restarts",
    "priority": "priority",
    "parent": "parent_id",
    "tags": "tags",
    "created_at": "created_at",
    "queued_at": "queued_at",
    "running_at": "running_at",
    "finished_at": "finished_at",
    "deadline_at": "deadline_at",
}
"""Columns that are in the job's row or beside it -> where."""
PREDICTED = {"predicted_run_s": "run_s", "predicted_energy_j": "energy_j"}
"""Columns of what was predicted at submit -> which figure of the estimate; its middle is shown."""
BASES = {"energy_j": "energy_basis", "predicted_energy_j": "predicted_energy_basis"}
"""Columns of energy -> those of what it rests on; of an energy used, where most of its figure comes from."""
COMPUTED = ("energy_j", "device", "devices", *PREDICTED, *BASES.values())
"""Columns of what its attempts used: energy of the ended ones, kind and number of devices of the newest one; of what
was foretold; and of what energies rest on."""
DEFAULT = ("state", "dataset", "family", "metric_best", "metric_test", "run_s", "owner", "created_at")
"""What is shown where nothing is chosen; the name always is."""
_ALSO = {
    "model": "family",
    "tag": "tags",
    "user": "owner",
    "best": "metric_best",
    "test": "metric_test",
    "time": "run_s",
    "energy": "energy_j",
    "speed": "samples_per_s",
    "made": "created_at",
}
"""What people call columns -> what they are."""
_KEY_LETTERS_MAX = 80
_NOT_OFFERED = {"name", "task", "model.family", "model.params", "data.dataset", "budget.deadline"}
_NOT_OFFERED |= {"data.features", "data.exclude", "data.known"}
"""Spec fields that are columns of their own, or lists too long for a cell: whoever names one gets it."""


@dataclass(frozen=True)
class Column:
    """One column, by its name in the address: of `FIELDS`, `COMPUTED`, `metric:KEY` or `spec:FIELD`."""

    key: str

    @property
    def expression(self) -> Combinable | None:
        """What the database computes for it; None for what is in the row."""
        if self.key.startswith(METRIC):
            return KeyTransform(self.key.removeprefix(METRIC), "last_values")
        if self.key.startswith(SPEC):
            return _spec_value(self.key.removeprefix(SPEC), _Exact)
        return _computed(self.key) if self.key in COMPUTED else None

    @property
    def order(self) -> Combinable | None:
        """What rows are sorted by, where the column is no field: numbers as numbers, JSON's null as nothing."""
        if self.key.startswith(METRIC):
            text = KeyTextTransform(self.key.removeprefix(METRIC), "last_values")
            return Cast(NullIf(text, Value("null")), FloatField())
        if self.key.startswith(SPEC):
            return _spec_value(self.key.removeprefix(SPEC), KeyTransform)
        return self.expression


class _Exact(KeyTransform):
    """As it is in JSON. Of SQLite a text comes without its quotes, and one like 1e5 would be read as a number."""

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> tuple[str, tuple[Any, ...]]:
        """Texts with their quotes, all else as ever."""
        plain, plain_params = super().as_sqlite(compiler, connection, **extra)
        lhs, params, _ = self.preprocess_lhs(compiler, connection)
        here = (*params, plain_params[-1])  # the path, which is the last one there, too
        text = f"JSON_TYPE({lhs}, %s) = 'text' THEN JSON_QUOTE(JSON_EXTRACT({lhs}, %s))"
        return f"(CASE WHEN {text} ELSE {plain} END)", (*here, *here, *plain_params)


def _spec_value(field: str, last: type[KeyTransform]) -> Combinable:
    *above, name = ("spec", *field.split("."))
    found: Any = "resolved"
    for part in above:
        found = KeyTransform(part, found)
    return last(name, found)


def _computed(key: str) -> Combinable:
    if key == "energy_j":
        uses = DeviceUse.objects.filter(job=OuterRef("pk")).order_by().values("job")
        return Subquery(uses.annotate(sum=Sum("energy_j")).values("sum"), output_field=FloatField())
    if key == "energy_basis":
        parts = DeviceUse.objects.filter(job=OuterRef("pk")).order_by().values("energy_basis")
        most = parts.annotate(sum=Sum("energy_j")).order_by("-sum").values("energy_basis")[:1]
        return Subquery(most, output_field=TextField())
    if key == "predicted_energy_basis":
        return Cast(KeyTextTransform("energy_basis", "estimate__estimate"), TextField())
    if key in PREDICTED:
        return Cast(KeyTextTransform("mid", KeyTransform(PREDICTED[key], "estimate__estimate")), FloatField())
    newest = JobAttempt.objects.filter(job=OuterRef("pk")).order_by("-number")
    if key == "devices":
        count = Cast(KeyTextTransform("count", "option"), IntegerField())
        return Subquery(newest.annotate(found=count).values("found")[:1])
    return Subquery(newest.annotate(found=KeyTextTransform("kind", "option")).values("found")[:1])


def column_key(word: str) -> str:
    """The key of the column that people mean: `model` is `family`, `training.seed` or `seed` the field of the spec,
    `val/loss` the metric. What means nothing is given back."""
    if word in FIELDS or word in COMPUTED or word.startswith((METRIC, SPEC)):
        return word
    if "." in word and word in _spec_paths():
        return SPEC + word
    meant = [path for path in spec_fields() if path == word or path.endswith(f".{word}")]
    if word in _ALSO or len(meant) != 1:
        return _ALSO.get(word, f"{METRIC}{word}" if "/" in word else word)
    return SPEC + meant[0]


def column_get(word: str) -> Column:
    """The column of this name, or of what people call it. Raises `Invalid`."""
    key = column_key(word)
    known = (
        key in FIELDS
        or key in COMPUTED
        or (key.startswith(SPEC) and key.removeprefix(SPEC) in _spec_paths())
        or (key.startswith(METRIC) and metric_key_works(key.removeprefix(METRIC)))
    )
    if not known:
        hint = f"Use {', '.join((*FIELDS, *COMPUTED))}, metric:KEY or spec:FIELD, such as spec:training.epochs."
        raise Invalid(f"There is no column {key[:_KEY_LETTERS_MAX]!r}.", field="column", hint=hint)
    return Column(key)


def columns_get(keys: Sequence[str]) -> tuple[Column, ...]:
    """Columns by their names, each once; those shown by default where none is named. Raises `Invalid`."""
    wanted = dict.fromkeys(map(column_key, keys or DEFAULT))
    if len(wanted) > COLUMNS_MAX:
        raise Invalid(f"A list can have at most {COLUMNS_MAX} columns.", field="column", hint="Remove some.")
    return tuple(column_get(key) for key in wanted)


def with_bases(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The same columns, and after them what each energy among them rests on."""
    return (*columns, *(Column(BASES[column.key]) for column in columns if column.key in BASES))


def columns_annotate(rows: QuerySet[Job], columns: Sequence[Column]) -> QuerySet[Job]:
    """The same rows with what the database computes for these columns, and for no other."""
    asked = {_alias(at): column.expression for at, column in enumerate(columns)}
    return rows.annotate(**{alias: expression for alias, expression in asked.items() if expression is not None})


def columns_values(job: Job, columns: Sequence[Column]) -> dict[str, Any]:
    """Value by column of a job out of `columns_annotate`, called with the same columns."""
    return {column.key: _value(job, column, _alias(at)) for at, column in enumerate(columns)}


def _alias(at: int) -> str:
    """Never made of a key: those come from programs and addresses."""
    return f"column_{at}"


def _value(job: Job, column: Column, alias: str) -> Any:
    if column.key not in FIELDS:
        return getattr(job, alias)
    found: Any = job
    for name in FIELDS[column.key].split("."):
        found = getattr(found, name)
    return found


def metric_key_works(key: str) -> bool:
    """Whether a metric of this name can be asked for: a path into JSON takes whole numbers for places in a list."""
    if not 0 < len(key) <= _KEY_LETTERS_MAX or not key.isprintable() or '"' in key or "\\" in key:
        return False
    try:
        int(key)
    except ValueError:
        return True
    return False


@cache
def spec_fields() -> tuple[str, ...]:
    """Dotted names of the fields of a spec that are offered as columns, the families' own knobs included."""
    return tuple(path for path in _spec_paths() if path not in _NOT_OFFERED)


@cache
def _spec_paths() -> tuple[str, ...]:
    """Dotted names of all fields of a spec."""
    knobs = dict.fromkeys(knob.name for family in FAMILIES.values() for knob in family.knobs)
    return (*_leaves(TaskSpec, ""), *(f"model.params.{name}" for name in knobs))


def _leaves(model: type[BaseModel], above: str) -> Iterator[str]:
    for name, info in model.model_fields.items():
        inner = next((part for part in (info.annotation, *get_args(info.annotation)) if _is_model(part)), None)
        if inner is not None:
            yield from _leaves(inner, f"{above}{name}.")
        else:
            yield f"{above}{name}"


def _is_model(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, BaseModel)

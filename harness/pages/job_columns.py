"""Columns of the list of jobs in words: heads with their sorting, how a cell is written, what can be chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.jobs.columns import (
    BASES,
    COMPUTED,
    FIELDS,
    METRIC,
    PREDICTED,
    SPEC,
    Column,
    columns_values,
    spec_fields,
    with_bases,
)
from harness.jobs.emulated import emulated_devices
from harness.jobs.models import Job
from harness.pages.figures import is_number
from harness.pages.spec_layout import spec_label

_NUMBERS = {
    "metric_best", "metric_test", "epoch", "epochs", "step", "samples_per_s", "run_s", "restarts", "priority",
    "energy_j", "devices", "predicted_run_s", "predicted_energy_j",
}  # fmt: skip
_MOMENTS = {"created_at", "queued_at", "running_at", "finished_at", "deadline_at"}
_WORDS = {"family", "metric_name", "device", *BASES.values()}
_LABELS = {
    "id": "Id",
    "family": "Model",
    "metric_name": "Metric",
    "metric_best": "Best (validation)",
    "metric_test": "Test",
    "epoch": "Epochs done",
    "epochs": "Epochs planned",
    "step": "Steps done",
    "samples_per_s": "Samples/s",
    "run_s": "Run time",
    "parent": "Cloned from",
    "created_at": "Made",
    "queued_at": "Queued",
    "running_at": "Started",
    "finished_at": "Ended",
    "deadline_at": "Deadline",
    "energy_j": "Energy",
    "predicted_run_s": "Run time (predicted)",
    "predicted_energy_j": "Energy (predicted)",
    "energy_basis": "Energy rests on",
    "predicted_energy_basis": "Energy (predicted) rests on",
    "device": "Ran on",
    f"{SPEC}resources.device": "Device (spec)",
    f"{SPEC}resources.device_model": "Model of device (spec)",
    f"{SPEC}objective.metric": "Metric (spec)",
    f"{SPEC}pipeline.schedule": "Schedule (stages)",
}
_SORTS = {
    "state": "state", "task": "task", "family": "family", "dataset": "dataset", "owner": "owner",
    "metric_best": "metric", "metric_test": "test", "run_s": "run", "created_at": "created", "queued_at": "queued",
    "finished_at": "finished",
}  # fmt: skip
"""Column -> name of its sort, where it is not its own."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """One column as the table shows it."""

    key: str
    label: str
    kind: str
    """How cells are written: a name that `jobs/cell.html` knows."""
    sort: str
    """Empty: it cannot be sorted by."""
    is_number: bool = False

    @property
    def down(self) -> str:
        """The sort, downwards."""
        return f"-{self.sort}"

    @property
    def is_upward(self) -> bool:
        """Whether the first press sorts upwards: names do, figures and times begin with the largest."""
        return not self.is_number and self.kind != "moment"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A value below its head."""

    head: Head
    value: Any
    basis: str = ""
    """What an energy rests on."""

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to tell: no device was held, no metric told."""
        return self.value in (None, "", []) or (self.head.kind == "run_s" and not self.value)


def column_head(column: Column) -> Head:
    """A column in words."""
    key = column.key
    if key.startswith(METRIC):
        return Head(key=key, label=key.removeprefix(METRIC), kind="figure", sort=key, is_number=True)
    if key.startswith(SPEC):
        label = _LABELS.get(key) or spec_label(key.removeprefix(SPEC))
        return Head(key=key, label=label, kind="plain", sort=key)
    label = _LABELS.get(key, key.replace("_", " ").capitalize())
    sort = key if key in COMPUTED else _SORTS.get(key, "")
    return Head(key=key, label=label, kind=_kind(key), sort=sort, is_number=key in _NUMBERS)


def _kind(key: str) -> str:
    if key in _MOMENTS:
        return "moment"
    if key in _WORDS:
        return "words"
    key = PREDICTED.get(key, key)
    named = {"state", "task", "dataset", "metric_best", "run_s", "energy_j", "parent", "tags"}
    return key if key in named else "figure"


def columns_shown(jobs: Iterable[Job], columns: Sequence[Column]) -> dict[str, Any]:
    """`heads`, `lines`: (job, its cells, its emulated devices), whether there is a column of tags; for jobs read with
    `with_bases` of these columns."""
    jobs = list(jobs)
    slowed = emulated_devices(jobs)
    values = [columns_values(job, with_bases(columns)) for job in jobs]
    heads = [_aligned(column_head(column), values) for column in columns]
    lines = [
        (job, [_cell(head, found) for head in heads], slowed.get(job.pk, ""))
        for job, found in zip(jobs, values, strict=True)
    ]
    return {"heads": heads, "lines": lines, "has_tags": any(head.kind == "tags" for head in heads)}


def _aligned(head: Head, values: Sequence[Mapping[str, Any]]) -> Head:
    """A field of the spec is one of numbers where all that it holds on the page are."""
    found = [row[head.key] for row in values if row[head.key] not in (None, "")]
    is_figures = bool(found) and all(is_number(value) for value in found)
    return replace(head, is_number=head.is_number or (head.kind == "plain" and is_figures))


def _cell(head: Head, values: Mapping[str, Any]) -> Cell:
    return Cell(head=head, value=values[head.key], basis=values.get(BASES.get(head.key, "")) or "")


def column_groups(chosen: Sequence[Column], metric_keys: Iterable[str]) -> list[tuple[str, list[Head], bool]]:
    """(title, columns, whether they are shown) to choose from: the chosen ones first, in their order."""
    shown = {column.key for column in chosen}
    groups: tuple[tuple[str, Iterable[str]], ...] = (
        ("Job", (*FIELDS, *COMPUTED)),
        ("Newest value of a metric", (f"{METRIC}{key}" for key in metric_keys)),
        ("Spec", (f"{SPEC}{path}" for path in spec_fields())),
    )
    rest = [(title, [column_head(Column(key)) for key in keys if key not in shown], False) for title, keys in groups]
    return [("Shown, in this order", [column_head(column) for column in chosen], True), *filter(_has_any, rest)]


def _has_any(group: tuple[str, list[Head], bool]) -> bool:
    return bool(group[1])

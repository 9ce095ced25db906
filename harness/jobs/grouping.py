"""A list of jobs by groups: how many there are of each; mean, spread and best of a figure of those that succeeded."""

from __future__ import annotations

import json
import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

from django.db.models import F, Value
from django.http import QueryDict

from harness.accounts.access import visible_projects
from harness.accounts.models import User
from harness.errors import Invalid
from harness.jobs.columns import BASES, FIELDS, METRIC, SPEC, Column, column_get, column_key
from harness.jobs.finding import JobFilters, job_order
from harness.jobs.models import Job
from worker.merit import larger_is_better
from worker.states import JobState

GROUPS = ("dataset", "family", "task", "owner", "project", "state", "tags")
"""Columns that jobs are grouped by, beside any field of the spec; a job is in the group of each of its tags."""
FIGURES = ("metric_best", "metric_test", "run_s", "energy_j", "samples_per_s")
"""Columns of which groups have mean, spread and best, beside any `metric:KEY`."""
DEFAULT_GROUP, DEFAULT_FIGURE = "family", "metric_best"
_JUDGED = {"metric_best", "metric_test"}
"""Their values mean something only beside those of the same metric: a group has a line for each."""
_LESS_IS_BETTER = {"run_s", "energy_j"}
_READ_AT_ONCE = 2000


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """What the address says of groups."""

    by: Column
    of: Column
    opened: str
    """Key of the group whose jobs are listed; empty: of none."""


@dataclass(kw_only=True)
class JobGroup:
    """Jobs with the same value, and judged by the same metric where the figure is one of several."""

    value: Any
    metric: str
    less_is_better: bool
    count: int = 0
    figures: list[tuple[float, str, str]] = field(default_factory=list)
    """(figure, id, name) of each job that succeeded and has one: what failed, or was ended, is no measure of others."""
    bases: Counter[str] = field(default_factory=Counter)
    """How many of the figures rest on what; of energies alone."""
    jobs: list[str] = field(default_factory=list)
    """Ids in the order of the list; of the opened group alone."""

    @property
    def key(self) -> str:
        """Its name in an address."""
        return json.dumps([self.value, self.metric])

    @property
    def mean(self) -> float | None:
        """Of the `figures`."""
        values = [entry[0] for entry in self.figures]
        try:
            return fmean(values) if values else None
        except OverflowError:  # their sum is beyond all floats: a program tells what it likes
            return math.fsum(value / len(values) for value in values)

    @property
    def deviation(self) -> float | None:
        """Standard deviation of a sample; None below two jobs, and where it is beyond all floats."""
        with suppress(OverflowError):
            return stdev(entry[0] for entry in self.figures) if len(self.figures) > 1 else None
        return None

    @property
    def basis(self) -> str:
        """What the figures rest on, most of them first: `measured, assumed`; empty where they are no energies."""
        return ", ".join(basis for basis, _ in self.bases.most_common())

    @property
    def best(self) -> tuple[float, str, str] | None:
        """(figure, id, name) of the best job."""
        choose = min if self.less_is_better else max
        return choose(self.figures, key=lambda entry: entry[0]) if self.figures else None


def grouping_read(given: QueryDict) -> Grouping | None:
    """Out of an address; None where it names no group. Raises `Invalid`."""
    by = given.get("group", "")
    return grouping_get(by=by, of=given.get("of", ""), opened=given.get("open", "")) if by else None


def grouping_get(*, by: str, of: str = "", opened: str = "") -> Grouping:
    """Of the names of two columns, or of what people call them; no figure: the best score. Raises `Invalid`."""
    group, figure = column_key(by), column_key(of or DEFAULT_FIGURE)
    if group not in GROUPS and not group.startswith(SPEC):
        hint = f"Use {', '.join(GROUPS)} or a field of the spec, such as spec:training.seed."
        raise Invalid(f"Jobs cannot be grouped by {by[:80]!r}.", field="group", hint=hint)
    if figure not in FIGURES and not figure.startswith(METRIC):
        hint = f"Use {', '.join(FIGURES)} or metric:KEY, such as metric:val/loss."
        raise Invalid(f"Groups have no mean of {of[:80]!r}.", field="of", hint=hint)
    return Grouping(by=column_get(group), of=column_get(figure), opened=opened)


def job_groups(*, user: User, filters: JobFilters, sort: str, grouping: Grouping) -> list[JobGroup]:
    """Groups of all jobs that the filter lets through, whatever page shows them, in one query and the roles.

    The best mean comes first, groups without the figure last, of several metrics one after the other.
    """
    rows = (
        Job.objects.filter(filters.where(), project__in=visible_projects(user))
        .annotate(group_value=_source(grouping.by), group_figure=_source(grouping.of), group_basis=_basis(grouping.of))
        .order_by(job_order(sort), "-created_at", "pk")
        .values_list("pk", "name", "state", "metric_name", "group_value", "group_figure", "group_basis")
    )
    found: dict[str, JobGroup] = {}
    for pk, name, state, metric_name, value, figure, basis in rows.iterator(chunk_size=_READ_AT_ONCE):
        metric = metric_name if grouping.of.key in _JUDGED else ""
        for one in _values(grouping.by, value):
            fresh = JobGroup(value=one, metric=metric, less_is_better=_less_is_better(grouping.of, metric))
            group = found.setdefault(fresh.key, fresh)
            group.count += 1
            if fresh.key == grouping.opened:
                group.jobs.append(pk)
            if state == JobState.SUCCEEDED and _is_told(grouping.of, figure):
                group.figures.append((float(figure), pk, name))
                group.bases.update([basis] if basis else [])
    return sorted(found.values(), key=_place)


def _source(column: Column) -> Any:
    return column.expression or F(FIELDS[column.key].replace(".", "__"))


def _basis(of: Column) -> Any:
    """Of an energy."""
    return Column(BASES[of.key]).expression if of.key in BASES else Value("")


def _values(by: Column, value: Any) -> list[Any]:
    if by.key != "tags":
        return [None if value == "" else value]
    return list(dict.fromkeys(value)) or [None]


def _is_told(of: Column, figure: Any) -> bool:
    if isinstance(figure, bool) or not isinstance(figure, int | float) or not math.isfinite(figure):
        return False
    return figure > 0 or of.key != "run_s"  # that of a job which never ran is no time


def _less_is_better(of: Column, metric: str) -> bool:
    name = metric or of.key.removeprefix(METRIC).rpartition("/")[2]
    return of.key in _LESS_IS_BETTER or not larger_is_better(name)


def _place(group: JobGroup) -> tuple[bool, str, float, str]:
    mean = group.mean
    return (mean is None, group.metric, 0.0 if mean is None else mean * (1 if group.less_is_better else -1), group.key)

"""Find jobs: by filters, in an order, page by page; and what columns can show of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, OrderBy, Q, QuerySet

from harness.accounts.access import visible_projects
from harness.accounts.models import Membership, Project, User
from harness.errors import Invalid
from harness.jobs.columns import (
    COMPUTED,
    FIELDS,
    METRIC,
    SPEC,
    Column,
    column_get,
    column_key,
    columns_annotate,
    metric_key_works,
)
from harness.jobs.models import Job
from harness.paging import Page, page_of, search_check
from harness.trash import PURGE_BEGUN
from worker.states import JobState

SORTS = {
    "created": "created_at",
    "queued": "queued_at",
    "finished": "finished_at",
    "name": "name",
    "state": "state",
    "task": "task",
    "family": "family",
    "metric": "metric_best",
    "test": "metric_test",
    "run": "run_s",
    "owner": "owner__username",
    "dataset": "dataset__name",
}
"""Names a list may be sorted by; with `-` in front: downwards."""
_SORTS_BY_COLUMN = {key: path.replace(".", "__") for key, path in FIELDS.items()}
_SORTS_BY_COLUMN = {key: field for key, field in _SORTS_BY_COLUMN.items() if field in SORTS.values()}
_NULLABLE = {"queued_at", "finished_at", "metric_best", "metric_test"}
_LIST_DEFERRED = ("resolved", "suggestions", "spec", "notes", "options", "promise")
_OWNERS_TOLD = 20
READ_AT_ONCE = 500
_KEYS_FROM_JOBS = 100
"""Newest jobs whose metrics are offered as columns."""


@dataclass(frozen=True, kw_only=True)
class JobFilters:
    """What a list shows; every field that is left out lets all through."""

    project: Project | None = None
    states: tuple[str, ...] = ()
    task: str = ""
    family: str = ""
    owner: str = ""
    """Username."""
    dataset: str = ""
    """Id or name."""
    parent: str = ""
    tag: str = ""
    query: str = ""
    """In name, notes, dataset or id."""
    metric: str = ""
    """Name of the metric that the best value is of."""
    target: str = ""
    """Column that they learned to predict."""
    metric_min: float | None = None
    metric_max: float | None = None
    since: datetime | None = None
    before: datetime | None = None
    """When they were made; `before` is exclusive."""
    ids: tuple[str, ...] | None = None
    """These alone."""
    deleted: bool = False
    """The trash instead of the list."""

    def where(self) -> Q:
        """As a condition. Raises `Invalid` for a state that does not exist."""
        wrong = set(self.states) - {state.value for state in JobState}
        if wrong:
            raise Invalid(f"There is no state {sorted(wrong)[0]!r}.", field="state", hint=", ".join(JobState))
        where = Q(deleted_at__gt=PURGE_BEGUN) if self.deleted else Q(deleted_at=None)
        exact = {
            "project": self.project,
            "task": self.task,
            "family": self.family,
            "owner__username": self.owner,
            "parent_id": self.parent,
            "metric_name": self.metric,
            "resolved__spec__data__target": self.target,
            "metric_best__gte": self.metric_min,
            "metric_best__lte": self.metric_max,
            "created_at__gte": self.since,
            "created_at__lt": self.before,
        }
        for field, value in exact.items():
            if value not in (None, ""):
                where &= Q(**{field: value})
        if self.ids is not None:
            where &= Q(pk__in=self.ids)
        if self.states:
            where &= Q(state__in=self.states)
        if self.dataset:
            where &= Q(dataset_id=self.dataset) | Q(dataset__name=self.dataset)
        if self.tag:
            tag = search_check(self.tag, "tag")
            # As text, JSON has other letters than English ones as they are, or (in SQLite) as escapes.
            where &= Q(tags__icontains=json.dumps(tag)) | Q(tags__icontains=json.dumps(tag, ensure_ascii=False))
        if self.query:
            text = search_check(self.query)
            where &= Q(name__icontains=text) | Q(notes__icontains=text) | Q(dataset__name__icontains=text) | Q(pk=text)
        return where


def job_list(
    *,
    user: User,
    filters: JobFilters | None = None,
    sort: str = "-created",
    page: int = 1,
    page_size: int = 50,
    columns: Sequence[Column] = (),
    without: Sequence[str] = (),
) -> Page[Job]:
    """One page of `job_rows`, in two queries and the roles. Raises `Invalid`, also where the page does not exist."""
    rows = job_rows(user=user, filters=filters, sort=sort, columns=columns, without=without)
    return page_of(rows, page=page, page_size=page_size)


def job_rows(
    *,
    user: User,
    filters: JobFilters | None = None,
    sort: str = "-created",
    columns: Sequence[Column] = (),
    without: Sequence[str] = (),
) -> QuerySet[Job]:
    """The jobs a person sees, with owner, dataset and project loaded: for who reads them to the end, or the first ones.

    `columns` are those whose values `columns_values` will be asked for; `without` are fields that nobody reads.
    Raises `Invalid` for a sort or filter that does not exist.
    """
    order = job_order(sort)
    rows = (
        Job.objects.filter((filters or JobFilters()).where(), project__in=visible_projects(user))
        .select_related("project", "owner", "dataset")
        .defer(*_LIST_DEFERRED, *without, "dataset__profile", "dataset__problem", "dataset__options")
        .order_by(*([order] if sort.removeprefix("-") == "created" else [order, "-created_at"]), "pk")
    )
    return columns_annotate(rows, columns)


def jobs_read(
    *, user: User, filters: JobFilters, sort: str, columns: Sequence[Column] = (), without: Sequence[str] = ()
) -> Iterator[Job]:
    """All of `job_rows` as they are at the first, some hundreds at a time; what is deleted meanwhile is left out.

    No statement stays open between two of them: who reads slowly would keep SQLite from clearing its log away.
    """
    ids = list(job_rows(user=user, filters=filters, sort=sort).values_list("pk", flat=True))
    for start in range(0, len(ids), READ_AT_ONCE):
        part = ids[start : start + READ_AT_ONCE]
        these = JobFilters(ids=tuple(part), deleted=filters.deleted)
        rows = {job.pk: job for job in job_rows(user=user, filters=these, columns=columns, without=without)}
        yield from (rows[pk] for pk in part if pk in rows)


def jobs_open(*, user: User, states: Sequence[JobState], sort: str = "-created") -> QuerySet[Job]:
    """Those of `job_rows` in states of which none is terminal: read off an index of these alone."""
    filters = JobFilters(states=tuple(str(state) for state in states))
    return job_rows(user=user, filters=filters, sort=sort).filter(finished_at=None)


def jobs_queued(*, user: User) -> QuerySet[Job]:
    """Those that wait, in the order in which the queue shows them."""
    place = F("queue_position").asc(nulls_last=True)
    return jobs_open(user=user, states=[JobState.QUEUED]).order_by(place, "-priority", "rank", "queued_at", "pk")


def jobs_ended(*, user: User, state: JobState) -> QuerySet[Job]:
    """Those of `job_rows` that ended so, the newest end first: read off an index, whatever their number."""
    rows = job_rows(user=user, filters=JobFilters(states=(str(state),)))
    return rows.filter(finished_at__isnull=False).order_by("-finished_at", "-pk")


def job_order(sort: str) -> OrderBy:
    """Of the name of a sort, of a column, or of what people call it. Raises `Invalid`."""
    name = sort.removeprefix("-")
    key = column_key(name)
    field = SORTS.get(name) or _SORTS_BY_COLUMN.get(key)
    what: Any = F(field) if field else None
    if field is None and (key in COMPUTED or key.startswith((METRIC, SPEC))):
        what = column_get(key).order
    if what is None:
        names = ", ".join((*SORTS, *COMPUTED))
        hint = f"Use one of: {names}, metric:KEY, spec:FIELD; with - in front the other way round."
        raise Invalid(f"Jobs cannot be sorted by {sort[:100]!r}.", field="sort", hint=hint)
    # Saying where nulls go keeps a database from using an index: only for columns that have any.
    last = True if field is None or field in _NULLABLE else None
    return OrderBy(what, descending=sort.startswith("-"), nulls_last=last)


def job_metric_keys(*, user: User) -> list[str]:
    """Keys of the metrics that the newest jobs a person sees have told, in order: what columns can show."""
    jobs = Job.objects.filter(project__in=visible_projects(user), deleted_at=None, running_at__isnull=False)
    newest = jobs.order_by("-created_at", "pk").values_list("last_values", flat=True)[:_KEYS_FROM_JOBS]
    return sorted({key for values in newest for key in values if metric_key_works(key)})


def job_owners(*, user: User) -> list[str]:
    """Names of those whose jobs the person sees, in order."""
    jobs = Job.objects.filter(project__in=visible_projects(user), deleted_at=None)
    return [str(name) for name in jobs.order_by("owner__username").values_list("owner__username", flat=True).distinct()]


def job_owner_check(*, user: User, name: str) -> None:
    """Pass for somebody in a project that the person sees, with jobs or without.

    Raises `Invalid` for all others alike: it does not tell whether there is such an account.
    """
    seen = visible_projects(user)
    members, jobs = Membership.objects.filter(project__in=seen), Job.objects.filter(project__in=seen)
    if name == user.username or members.filter(user__username=name).exists():
        return
    if jobs.filter(owner__username=name).exists():
        return  # who has left the project
    known = job_owners(user=user)
    more = f" and {len(known) - _OWNERS_TOLD} more" if len(known) > _OWNERS_TOLD else ""
    hint = f"Jobs that you see are of: {', '.join(known[:_OWNERS_TOLD])}{more}." if known else "Leave the owner out."
    raise Invalid(f"Nobody in the projects that you see is called {name!r}.", field="owner", hint=hint)

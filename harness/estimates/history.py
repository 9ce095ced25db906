"""Read what has run as a trace that `dlh simulate` replays: what the pool would have done by another policy."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from django.db.models import F, OuterRef, Subquery
from django.db.models.functions import Coalesce

from harness.accounts.access import visible_projects
from harness.accounts.models import User
from harness.estimates.told import ways_told
from harness.jobs.models import DeviceUse, Job, JobEvent
from harness.jobs.windows import Window
from scheduler.estimation.estimate import worst
from scheduler.estimation.values import Basis
from scheduler.simulate.traces import Way
from worker.states import TERMINAL, JobState

TraceRow = tuple[str | float | int | None, ...]
TRACE_COLUMNS = (
    "job_id", "submitted_s", "deadline_s", "kind", "device_model", "count", "run_s", "power_w", "power_basis",
    "project", "priority", "ways",
)  # fmt: skip
"""As `scheduler.simulate.traces` reads them; times are seconds since 1970, ways what the estimator told, as JSON."""
_READ_AT_ONCE = 500
_Ended = tuple[str, datetime, datetime | None, str, int]
"""Id, when it was first submitted, deadline, project, priority."""


class _Use(NamedTuple):
    """What is read of a `DeviceUse`."""

    token: int
    node_name: str
    device_kind: str
    device_model: str
    device_index: int
    started_at: datetime
    ended_at: datetime
    energy_j: float
    energy_basis: str


def trace_rows(*, user: User, window: Window) -> Iterator[TraceRow]:
    """Jobs that held devices and ended in the window, in the order of their first submission, some hundreds at a time.

    Only those of projects the person sees.
    """
    queued = JobEvent.objects.filter(job=OuterRef("pk"), new_state=JobState.QUEUED.value).order_by("at", "pk")
    ended = Job.objects.filter(project__in=visible_projects(user), state__in=[state.value for state in TERMINAL])
    ended = ended.filter(finished_at__gt=window.since, finished_at__lte=window.until)
    jobs = list(
        ended.annotate(submitted_at=Coalesce(Subquery(queued.values("at")[:1]), "created_at"))
        .order_by("submitted_at", "pk")
        .values_list("pk", "submitted_at", "deadline_at", "project__slug", "priority")
    )
    for start in range(0, len(jobs), _READ_AT_ONCE):
        yield from _rows(jobs[start : start + _READ_AT_ONCE])


def _rows(jobs: Sequence[_Ended]) -> Iterator[TraceRow]:
    ids = [pk for pk, *_ in jobs]
    uses: dict[str, list[_Use]] = defaultdict(list)
    # What its attempts held may reach back before the window.
    for use in DeviceUse.objects.filter(job__in=ids, ended_at__gt=F("started_at")).values_list("job_id", *_Use._fields):
        uses[use[0]].append(_Use(*use[1:]))
    told = ways_told(Job.objects.filter(pk__in=ids))
    for pk, at, until, slug, priority in jobs:
        if pk in uses:
            due_s = until.timestamp() if until else None
            yield (pk, at.timestamp(), due_s, *_held(uses[pk]), slug, priority, _text(told.get(pk)))


def _text(ways: Sequence[Way] | None) -> str:
    return json.dumps([way.to_dict() for way in ways], separators=(",", ":")) if ways else ""


def _held(uses: Sequence[_Use]) -> tuple[str, str, int, float, float, str]:
    """(kind, model, count, seconds, watts, their basis): the most devices it had in an attempt, for as long as all of
    it took. The model is empty where they were not alike.

    Of several kinds the one that it ended on counts; what it took on others counts for as long as it took there.
    """
    kind = max(uses, key=lambda use: (use.token, use.ended_at)).device_kind
    held: dict[int, set[tuple[str, int]]] = defaultdict(set)
    device_s: dict[int, float] = defaultdict(float)
    for use in uses:
        held[use.token].add((use.node_name, use.device_index))
        device_s[use.token] += (use.ended_at - use.started_at).total_seconds()
    own = {use.token for use in uses if use.device_kind == kind}
    count = max(len(held[token]) for token in own)
    run_s = sum(spent_s / (count if token in own else len(held[token])) for token, spent_s in device_s.items())
    models = {use.device_model for use in uses if use.device_kind == kind}
    basis = worst(*(Basis(use.energy_basis) for use in uses))
    return (
        kind,
        models.pop() if len(models) == 1 else "",
        count,
        run_s,
        sum(use.energy_j for use in uses) / run_s,
        basis,
    )

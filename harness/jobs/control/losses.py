"""How often, and where, a job was lost since it last got on: it starts on other nodes where it can. Reads only."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from django.db.models import F, Max, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from harness.jobs.control.parts import is_spread, nodes_of
from harness.jobs.models import Checkpoint, Job, JobAttempt, JobEvent
from harness.jobs.node_ends import END_KIND, end_read
from worker.events import FailureCode, Outcome

Losses = Mapping[str, int]
"""Node -> how often."""


_SHUT_DOWN = Q(failure__code=FailureCode.NODE_STOPPED)
_FAULT = Q(failure__code=None) | ~_SHUT_DOWN
"""An attempt without a failure's code is none of a node that an admin shut down, either; SQL has to be told."""


def faults(job_ids: Collection[str]) -> QuerySet[JobAttempt]:
    """Attempts that faults of the platform ended, back to the one that made the newest checkpoint of its job.

    That an admin shut a node down is no fault of it.
    """
    return _lost_attempts(job_ids).filter(_FAULT)


def stops(job_ids: Collection[str]) -> QuerySet[JobAttempt]:
    """The same of attempts whose node was shut down."""
    return _lost_attempts(job_ids).filter(_SHUT_DOWN)


def _lost_attempts(job_ids: Collection[str]) -> QuerySet[JobAttempt]:
    made = Checkpoint.objects.filter(job=OuterRef("job")).order_by().values("job").annotate(newest=Max("token"))
    rows = JobAttempt.objects.filter(job__in=job_ids, outcome=Outcome.LOST)
    return rows.alias(made=Coalesce(Subquery(made.values("newest")), 0)).filter(number__gte=F("made"))


def losses_read(jobs: Iterable[Job]) -> Mapping[str, Losses]:
    """By job id, of those that are to start again; what a person has looked at and resumed begins anew.

    A node that was shut down last counts as well: it may be seen as up for a moment yet.
    """
    started = {job.pk: job for job in jobs if job.token}
    if not started:
        return {}
    lost: dict[str, list[JobAttempt]] = defaultdict(list)
    restarts: Counter[str] = Counter()
    rows = _lost_attempts(started.keys()).filter(_FAULT | Q(number=F("job__token"))).order_by("-number")
    for attempt in rows.annotate(is_stop=Q(_SHUT_DOWN)).only("job_id", "number", "plan"):
        job = started[attempt.job_id]
        if attempt.is_stop:
            lost[job.pk].append(attempt)
        elif restarts[job.pk] < job.restarts:
            lost[job.pk].append(attempt)
            restarts[job.pk] += 1
    blamed = _blamed_read([one for attempts in lost.values() for one in attempts if is_spread(one)])
    return {
        job_id: Counter(node for one in attempts for node in blamed.get((job_id, one.number)) or nodes_of(one))
        for job_id, attempts in lost.items()
    }


def placed_words(job: Job, nodes: Sequence[str]) -> str:
    """That it is placed on these nodes, and what its losses have to do with it."""
    lost, names = set(losses_read([job]).get(job.pk, {})), ", ".join(nodes)
    shut = _shut_down(job) if lost else set()
    avoided = lost.difference(nodes)
    if not avoided:
        return f"Placed on {names}" + (", where it was lost: no other node was free for it" if lost - shut else "")
    down = f"which {'was' if len(avoided & shut) == 1 else 'were'} shut down"
    parts = [(avoided - shut, "where it was lost"), (avoided & shut, down)]
    told = [f"not on {' and '.join(sorted(some))}, {why}" for some, why in parts if some]
    return ", ".join([f"Placed on {names}", *told])


def _shut_down(job: Job) -> set[str]:
    """Nodes whose shutdown ended its newest attempt."""
    attempt = stops([job.pk]).filter(number=F("job__token")).only("job_id", "number", "plan").first()
    if attempt is None:
        return set()
    blamed = _blamed_read([attempt] if is_spread(attempt) else [])
    return set(blamed.get((job.pk, attempt.number)) or nodes_of(attempt))


def _blamed_read(attempts: Collection[JobAttempt]) -> Mapping[tuple[str, int], list[str]]:
    """(job, number) of attempts on several nodes -> those that did not only lose the others; none where all lost each
    other."""
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    if not attempts:
        return found
    jobs, numbers = {one.job_id for one in attempts}, {one.number for one in attempts}
    # One query for all of them; where jobs count attempts of different numbers it reads a few too many.
    rows = JobEvent.objects.filter(kind=END_KIND, job__in=jobs, token__in=numbers)
    for job_id, token, body in rows.values_list("job_id", "token", "data"):
        end = end_read(body)
        if end.outcome == Outcome.LOST and not end.has_suffered:
            found[job_id, token].append(end.node)
    return found

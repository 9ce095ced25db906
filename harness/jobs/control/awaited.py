"""What a run made lies on its node alone, and the node is silent: for how long that is waited for. Reads only.

A run that ended with success has nothing left to do but to return it: to wait costs less than to train again. One that
was lost or paused goes on from what the store has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings

from harness.jobs.control.parts import is_spread, left_nodes, nodes_of
from harness.jobs.control.returns import outcome_before_return, was_to_pause
from harness.jobs.models import Job, JobAttempt, JobEvent
from harness.jobs.node_ends import END_KIND
from harness.pool.models import Node, NodeState
from worker.events import Outcome
from worker.states import JobState

RETURN_LIMIT = timedelta(minutes=15)
"""A node that still had to return something and is silent for so long is given up: it may be started anew within.
Where the run had succeeded it is `settings.RETURN_WAIT_S`."""
_GOOD = [Outcome.SUCCEEDED]


@dataclass(frozen=True, kw_only=True)
class Awaited:
    """Results of a run that ended with success, which only a node that does not answer has."""

    node: str
    until: datetime
    """Then the job trains again from its newest checkpoint in the store."""
    pauses: bool
    """Whether it is paused then instead, as a person had asked for."""


def results_awaited(job: Job) -> Awaited | None:
    """What is waited for; None where nothing is, or its node answers."""
    if job.state != JobState.RETURNING:
        return None
    attempt = job.attempts.filter(number=job.token, ended_at=None).first()
    if attempt is None or not had_succeeded(attempt):
        return None
    node = Node.objects.filter(name=nodes_of(attempt)[0], state=NodeState.DOWN).first()
    if node is None:
        return None
    heard = [at for at in (attempt.seen_at or attempt.created_at, node.heartbeat_at) if at is not None]
    pauses = was_to_pause(job) and not job.preempted
    return Awaited(node=node.name, until=min(heard) + return_limit(attempt), pauses=pauses)


def return_overdue(attempt: JobAttempt, names: Iterable[str], nodes: Mapping[str, Node], now: datetime) -> bool:
    """Whether nobody can wait any longer for what these nodes were to return, none of which does so now.

    A node may be up and know nothing of it any more, as its disk is another one: then nobody has said a word of the
    attempt for as long, which who returns does every minute.
    """
    there = [nodes[name] for name in names if name in nodes]
    is_up = any(node.state != NodeState.DOWN for node in there)
    limit = RETURN_LIMIT if is_up else return_limit(attempt)
    if abs(now - (attempt.seen_at or attempt.created_at)) > limit:
        return True
    return all(node.heartbeat_at is None or abs(now - node.heartbeat_at) > limit for node in there)


def return_limit(attempt: JobAttempt) -> timedelta:
    """How long a silent node is waited for that has something to return of this attempt."""
    return timedelta(seconds=settings.RETURN_WAIT_S) if had_succeeded(attempt) else RETURN_LIMIT


def had_succeeded(attempt: JobAttempt) -> bool:
    """Whether its ranks had ended with success, so far as that was told; on several nodes those of the first, which has
    the results and has not returned them, and of all that have ended."""
    if not is_spread(attempt):
        return [told.get("outcome") for told in _told(attempt, "state", new_state=JobState.RETURNING)] == _GOOD
    left, first = left_nodes(attempt), nodes_of(attempt)[0]
    ends = {told.get("node"): told.get("outcome") for told in _told(attempt, END_KIND)}
    is_good = {outcome for node, outcome in ends.items() if node not in left} <= set(_GOOD)
    return is_good and first not in ends and [outcome_before_return(attempt, first)] == _GOOD


def _told(attempt: JobAttempt, kind: str, **of: str) -> list[dict[str, Any]]:
    rows = JobEvent.objects.filter(job_id=attempt.job_id, token=attempt.number, kind=kind, **of)
    return list(rows.values_list("data", flat=True))

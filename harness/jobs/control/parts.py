"""The nodes of an attempt, and which of them it has left behind. Reads only.

An elastic attempt over several nodes may go on without one of them (`survivors`): from then on `JobAttempt.width` names
no rank of that node. Without the first one it ends; until then nothing that one says counts, either.
"""

from __future__ import annotations

from datetime import datetime

from harness.jobs.control.width_request import width_of, width_request_read
from harness.jobs.models import JobAttempt
from worker.events import SUPERVISOR_RANK


def nodes_of(attempt: JobAttempt) -> tuple[str, ...]:
    """Its nodes in rank order."""
    return attempt.run_plan.nodes


def is_spread(attempt: JobAttempt) -> bool:
    """Whether it has ranks on more than one node."""
    return len(nodes_of(attempt)) > 1


def ranks_on(attempt: JobAttempt, node: str) -> frozenset[int]:
    """Those of its plan."""
    return frozenset(rank.rank for rank in attempt.run_plan.ranks if rank.node == node)


def left_nodes(attempt: JobAttempt) -> frozenset[str]:
    """Those without which it goes on."""
    if not attempt.width or not is_spread(attempt):
        return frozenset()
    there = set(width_of(attempt))
    return frozenset(node for node in nodes_of(attempt) if not ranks_on(attempt, node) & there)


def first_lost_at(attempt: JobAttempt) -> datetime | None:
    """When its first node was called lost; None where it was not, or where nothing could come after that."""
    request = width_request_read(attempt.width)
    return datetime.fromisoformat(request.first_lost_at) if request and request.first_lost_at else None


def unheard_nodes(attempt: JobAttempt) -> frozenset[str]:
    """Those whose words and files do not count any more."""
    return left_nodes(attempt) | frozenset(nodes_of(attempt)[:1] if first_lost_at(attempt) else ())


def left_voices(attempt: JobAttempt) -> frozenset[int]:
    """`Event.rank` of whatever speaks on these nodes."""
    left, order = unheard_nodes(attempt), nodes_of(attempt)
    supervisors = {SUPERVISOR_RANK - order.index(node) for node in left}
    return frozenset(supervisors.union(*(ranks_on(attempt, node) for node in left)))

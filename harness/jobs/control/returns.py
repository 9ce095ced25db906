"""What nodes have yet to return of attempts whose ranks have ended; loads nothing large (`harness.hooks`)."""

from __future__ import annotations

from harness.jobs.control.parts import is_spread, left_nodes, nodes_of
from harness.jobs.models import Job, JobAttempt, JobEvent
from harness.jobs.node_ends import END_KIND
from harness.pool.models import Node
from worker.states import JobState

RETURN_KIND = "node_return"
"""`JobEvent.kind`; its `data` names the `node`, when its ranks had ended (`ended_s`, by its own clock) and their
`outcome`."""


def nodes_returning(attempt: JobAttempt) -> tuple[str, ...]:
    """The nodes of an attempt that has given its devices back which still return what its ranks made."""
    if not is_spread(attempt):
        return nodes_of(attempt)
    return tuple(sorted(told_by(attempt, RETURN_KIND).keys() - told_by(attempt, END_KIND).keys()))


def told_by(attempt: JobAttempt, kind: str) -> dict[str, float]:
    """Nodes of which such rows tell -> when their ranks had ended; 0 where nobody knows."""
    rows = JobEvent.objects.filter(job_id=attempt.job_id, kind=kind, token=attempt.number)
    return {str(data.get("node")): float(data.get("ended_s") or 0.0) for data in rows.values_list("data", flat=True)}


def outcome_before_return(attempt: JobAttempt, node: str) -> str:
    """How the ranks on a node of an attempt on several nodes had ended; empty where it never said so."""
    rows = JobEvent.objects.filter(job_id=attempt.job_id, kind=RETURN_KIND, token=attempt.number, data__node=node)
    data = rows.values_list("data", flat=True).first() or {}
    return str(data.get("outcome") or "")


def jobs_returning(node: Node) -> list[Job]:
    """Those whose ranks have ended everywhere, and of which this node has still something to return."""
    rows = JobAttempt.objects.filter(ended_at=None, job__state=JobState.RETURNING)
    open_now = rows.select_related("job__project", "job__owner").order_by("job_id")
    return [attempt.job for attempt in open_now if node.name in _returns(attempt)]


def names_returning(node: Node) -> list[str]:
    """Names of these jobs."""
    return [job.name for job in jobs_returning(node)]


def _returns(attempt: JobAttempt) -> frozenset[str]:
    """Nodes of a released attempt that have not said that they are done."""
    done = told_by(attempt, END_KIND).keys() if is_spread(attempt) else ()
    return frozenset(nodes_of(attempt)) - left_nodes(attempt) - set(done)


def was_to_pause(job: Job) -> bool:
    """Whether a job whose results are being returned had been asked to pause before that."""
    rows = JobEvent.objects.filter(job=job, kind="state", new_state=JobState.RETURNING, token=job.token)
    newest = rows.order_by("-pk").values_list("old_state", flat=True).first()
    return newest == JobState.PAUSING

"""Whether anybody still waits for what an attempt made on a node and could not return."""

from __future__ import annotations

from collections.abc import Mapping

from harness.jobs.control.parts import nodes_of
from harness.jobs.control.saved import course_begin
from harness.jobs.models import JobAttempt
from harness.pool.models import Node
from worker.states import JobState


def awaited_get(node: Node, tokens: Mapping[str, int]) -> list[str]:
    """Ids of those jobs that may go on from what the attempt of that number left on the node: it is of the course that
    the job is on, which has not got to its end."""
    attempts = JobAttempt.objects.filter(job_id__in=tokens).select_related("job").defer("option", "failure")
    return sorted(
        attempt.job_id
        for attempt in attempts.exclude(job__state=JobState.SUCCEEDED)
        if attempt.number == tokens[attempt.job_id]
        and node.name in nodes_of(attempt)
        and attempt.number >= course_begin(attempt.job)
    )

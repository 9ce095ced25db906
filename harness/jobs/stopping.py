"""The message that tells a node to stop an attempt (`node.stop`)."""

from __future__ import annotations

from harness.jobs.models import JobAttempt


def stop_message(attempt: JobAttempt, how: str) -> list[str | int]:
    """Arguments of the task. The stream of the attempt's events is named where it is not the first.

    A node that does not have the attempt any more tells its end itself: in another stream that could overtake what its
    supervisor has said.
    """
    stream = attempt.run_plan.event_stream
    return [attempt.job_id, attempt.number, how, *([stream] if stream else [])]

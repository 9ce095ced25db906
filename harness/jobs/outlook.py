"""What can be told now of how a run gets on: nothing while control takes nothing in (`readers.standstill`)."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

from harness.jobs.control.expectations import idle_s, slack_s
from harness.jobs.models import Job
from harness.jobs.readers import standstill
from worker.states import HOLDS_DEVICES, JobState


class Outlook(TypedDict):
    """Fields as API and queue name them; of a run all None where nobody knows."""

    expected_finish_at: datetime | None
    expected_low_at: datetime | None
    expected_high_at: datetime | None
    idle_s: float | None
    slack_s: float | None


def is_unknown_now(job: Job) -> bool:
    """Whether it runs and nobody takes in what it reports: it may make progress, and its expected finish passes."""
    return JobState(job.state) in HOLDS_DEVICES and standstill() is not None


def outlook(job: Job) -> Outlook:
    """When it is expected to end, for how long it has made no progress, and how much of its promise is left."""
    if is_unknown_now(job):
        return Outlook(expected_finish_at=None, expected_low_at=None, expected_high_at=None, idle_s=None, slack_s=None)
    return Outlook(
        expected_finish_at=job.expected_finish_at,
        expected_low_at=job.expected_low_at,
        expected_high_at=job.expected_high_at,
        idle_s=idle_s(job),
        slack_s=slack_s(job),
    )

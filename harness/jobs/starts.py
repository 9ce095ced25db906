"""When a waiting job is expected to start: an estimate and its range, from the times that were noted of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from harness.jobs.models import Job
from worker.states import JobState


@dataclass(frozen=True, kw_only=True)
class StartTold:
    """What people are told; `low_at` to `high_at` as the range of the finish."""

    likely_at: datetime
    low_at: datetime
    high_at: datetime

    @property
    def spreads(self) -> bool:
        """Whether the two ends read differently: minutes are shown."""
        return reads_apart(self.low_at, self.high_at)


def reads_apart(low_at: datetime, high_at: datetime) -> bool:
    """Whether two moments differ where minutes are shown."""
    return low_at.replace(second=0, microsecond=0) != high_at.replace(second=0, microsecond=0)


def start_told(job: Job) -> StartTold | None:
    """Of a job that waits; None where nobody can tell.

    Plans count with the upper end, `Job.expected_start_at`. At the lower end the jobs before it take as much less than
    that as it does itself: so the range of its finish was made (`expectations.expected_of`), of which what its run
    takes is left out here. The estimate lies halfway.
    """
    high_at, low, mid, high = job.expected_start_at, job.expected_low_at, job.expected_finish_at, job.expected_high_at
    if job.state != JobState.QUEUED or high_at is None or low is None or mid is None or high is None:
        return None
    run_s, longest_s = (mid - high_at).total_seconds(), (high - high_at).total_seconds()
    shortest = (mid - high_at) * (run_s / longest_s) if longest_s > 0 else mid - high_at
    low_at = min(high_at, max(timezone.now(), low - shortest))
    return StartTold(likely_at=low_at + (high_at - low_at) / 2, low_at=low_at, high_at=high_at)


def start_times(job: Job) -> dict[str, datetime | None]:
    """The same by the names of the API; of a job that has its devices when it started, as an estimate of no range."""
    told = start_told(job)
    return {
        "expected_start_at": told.likely_at if told else job.expected_start_at,
        "expected_start_low_at": told.low_at if told else None,
        "expected_start_high_at": told.high_at if told else None,
    }

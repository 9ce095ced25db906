"""The column whose numbers a job predicts, and what they count."""

from __future__ import annotations

from typing import NamedTuple

from codegen.spec import NUMBER_TASKS
from harness.errors import HarnessError
from harness.jobs.models import Job
from harness.jobs.selectors import job_profile


class Target(NamedTuple):
    """Empty texts for classes."""

    name: str = ""
    unit: str = ""
    """As the file writes it behind or before the numbers: `€`, `%`, `mm`; of durations seconds, `s`."""

    @property
    def heading(self) -> str:
        """`price (€)`."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


def target_of(job: Job) -> Target:
    """By the job's spec and the profile of its data."""
    shape = (job.resolved.get("spec") or {}).get("shape")
    name = str(shape.get("target") or "") if job.task in NUMBER_TASKS and isinstance(shape, dict) else ""
    if not name:
        return Target()
    try:
        column = job_profile(job).column(name)
    except HarnessError:  # its data cannot be read now
        column = None
    return Target(name, column.unit if column else "")

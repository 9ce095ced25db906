"""What jobs ask of the apps above."""

from __future__ import annotations

from typing import Any

from harness.hooks import Question
from harness.jobs.models import Job

WORKLOAD: Question[[Job], dict[str, Any]] = Question()
"""What does the job's program do in a step (`Workload.to_dict()`)? Empty: nobody has read it for an estimate."""

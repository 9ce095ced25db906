"""What a new job takes over of an old one: all of it but a finish time that has passed, which nothing could keep."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from harness.jobs import programs
from harness.jobs.models import Job
from harness.jobs.options import wanted_deadline
from harness.moments import moment_words


@dataclass(frozen=True, kw_only=True)
class JobSource:
    """What a person gives for a job."""

    spec: str | dict[str, Any]
    own_model: str | None
    """Text of their model.py; None where the model is to be generated."""
    files: dict[str, str]
    """Texts in place of generated ones, by name."""


def job_copy(job: Job) -> JobSource:
    """Its spec, without a deadline that has passed, and what of its program is the person's own."""
    spec: dict[str, Any] = job.spec
    if _deadline_passed(job):
        spec = {**spec, "budget": {**spec["budget"], "deadline": "auto"}}
    paths = settings.STORE.job(job.pk)
    generated, written = programs.files_read(paths.generated), programs.files_read(paths.program)
    return JobSource(
        spec=spec,
        own_model=written.get("model.py") if job.program_own else None,
        files={name: text for name, text in written.items() if text != generated.get(name)},
    )


def left_out(job: Job) -> list[str]:
    """What `job_copy` does not take over, in sentences."""
    passed_at = _deadline_passed(job)
    if passed_at is None:
        return []
    return [f"The deadline of {job.name}, {moment_words(passed_at)}, has passed: choose another or none."]


def _deadline_passed(job: Job) -> datetime | None:
    deadline_at = wanted_deadline(programs.spec_read(job.spec))
    return deadline_at if deadline_at is not None and deadline_at <= timezone.now() else None

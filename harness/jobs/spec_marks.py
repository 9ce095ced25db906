"""By what the spec of a draft is known to be the one that somebody has seen: two who edit it undo nothing unasked."""

from __future__ import annotations

import json

from harness.errors import Conflict
from harness.jobs.models import Job
from harness.jobs.programs import text_sha256


def spec_mark(job: Job) -> str:
    """Of the spec as it is."""
    return text_sha256(json.dumps(job.spec, sort_keys=True))


def spec_seen_check(job: Job, seen: str) -> None:
    """Pass where `seen` is the mark of the job's spec, or empty. Raises `Conflict`."""
    if seen not in ("", spec_mark(job)):
        told = f"The spec of {job.name} was changed since it was read."
        hint = "Read the job again and make your change to the spec that it has now."
        raise Conflict(told, code="changed", field="spec", hint=hint, details={"sha256": spec_mark(job)})

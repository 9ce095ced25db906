"""What a clone has otherwise than the job it was made from."""

from __future__ import annotations

from typing import Any

from harness.jobs.models import Job
from harness.jobs.selectors import program_files
from harness.pages.spec_diff import spec_differences


def parent_context(job: Job) -> dict[str, Any]:
    """`parent`, the spec fields that differ, and the files that differ by hand; empty for a job that is no clone.

    A parent in another project is not told: who sees this job need not see that one.
    """
    parent = job.parent
    if parent is None or parent.project_id != job.project_id:
        return {}
    ours, theirs = _by_hand(job), _by_hand(parent)
    return {
        "parent": parent,
        "changed": spec_differences([one.resolved.get("spec") or one.spec for one in (parent, job)]),
        "changed_files": [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)],
    }


def _by_hand(job: Job) -> dict[str, str]:
    """Texts of the files that a person wrote; the spec has its own table."""
    return {file["name"]: file["text"] for file in program_files(job) if file["edited"] and file["name"] != "spec.yaml"}

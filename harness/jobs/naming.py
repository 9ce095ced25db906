"""What people call a job: its name, notes and tags."""

from __future__ import annotations

from typing import Any

from harness.accounts.access import require
from harness.accounts.models import Role, User
from harness.broker import publish_job
from harness.errors import Invalid
from harness.jobs.models import Job

_TAGS_MAX = 20
_TAG_LENGTH_MAX = 60


def job_update(
    *, user: User, job: Job, name: str | None = None, notes: str | None = None, tags: list[str] | None = None
) -> Job:
    """Change name, notes, tags. Raises `NotFound`, `Forbidden`, `Invalid`."""
    require(user, job.project, Role.MEMBER)
    changes: dict[str, Any] = {}
    if name is not None:
        if not name.strip() or len(name) > 120:
            raise Invalid("A job needs a name of at most 120 characters.", field="name")
        changes["name"] = name.strip()
    if notes is not None:
        if len(notes) > 20_000:
            raise Invalid("Notes can have at most 20,000 characters.", field="notes")
        changes["notes"] = notes
    if tags is not None:
        changes["tags"] = _tags(tags)
    if changes:
        Job.objects.filter(pk=job.pk).update(**changes)
        job.refresh_from_db()
        publish_job(job.project_id, job.pk, "updated", {key: changes[key] for key in changes if key != "notes"})
    return job


def _tags(tags: list[str]) -> list[str]:
    clean = list(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))
    if len(clean) > _TAGS_MAX or any(len(tag) > _TAG_LENGTH_MAX for tag in clean):
        raise Invalid(
            f"A job can have at most {_TAGS_MAX} tags of at most {_TAG_LENGTH_MAX} characters each.", field="tags"
        )
    return clean

"""What people call a job: its name, notes and tags."""

from __future__ import annotations

import re
from itertools import count
from typing import Any

from django.db import transaction

from codegen.catalog import FAMILIES
from harness.accounts.access import require
from harness.accounts.models import Role, User
from harness.broker import publish_job
from harness.errors import Invalid
from harness.jobs.models import DeviceUse, Job
from harness.names import name_line, name_read

_TAGS_MAX = 20
_TAG_LENGTH_MAX = 60
_NAME_LENGTH, _NUMBER_LENGTH, _COPY_LENGTH = 120, 8, 13
_COPY = re.compile(r" \(copy(?: \d+)?\)$")


def job_update(
    *, user: User, job: Job, name: str | None = None, notes: str | None = None, tags: list[str] | None = None
) -> Job:
    """Change name, notes, tags. Raises `NotFound`, `Forbidden`, `Invalid`."""
    require(user, job.project, Role.MEMBER)
    changes: dict[str, Any] = {}
    if name is not None and name.strip() != job.name:  # an older one may be none that is given today
        changes["name"] = name_read(name, of="A job", letters_max=_NAME_LENGTH)
    if notes is not None:
        if len(notes) > 20_000:
            raise Invalid("Notes can have at most 20,000 characters.", field="notes")
        changes["notes"] = notes
    if tags is not None:
        changes["tags"] = _tags(tags)
    if changes:
        with transaction.atomic():
            Job.objects.filter(pk=job.pk).update(**changes)
            if "name" in changes:  # what it used is found under the name that it has
                DeviceUse.objects.filter(job=job.pk).update(job_name=changes["name"])
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


def job_name_made(name: str, job: Job) -> str:
    """What a person named it, else its data and model, numbered from the second such job of its project on."""
    if line := name_line(name):
        return line[:_NAME_LENGTH].rstrip()
    made = f"{name_line(job.dataset.name)} · {FAMILIES[job.family].word}"[: _NAME_LENGTH - _NUMBER_LENGTH].rstrip()
    return _name_free(made, "", job)


def job_name_of_copy(parent: Job, job: Job) -> str:
    """That of the job it is a copy of, which may be a copy itself; numbered from the second copy on."""
    return _name_free(_COPY.sub("", name_line(parent.name))[: _NAME_LENGTH - _COPY_LENGTH].rstrip(), "copy", job)


def _name_free(made: str, word: str, job: Job) -> str:
    """The first name of a job that its project does not have yet: `made`, `made (2)` ... or `made (copy)` ..."""
    taken = set(Job.objects.filter(project=job.project, name__startswith=made).values_list("name", flat=True))
    marks = (" ".join(filter(None, (word, str(number) if number > 1 else ""))) for number in count(1))
    return next(one for mark in marks if (one := f"{made} ({mark})" if mark else made) not in taken)

"""A change of a draft that was cut off between its files and its row, which no transaction holds together."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction

from harness.accounts.models import User
from harness.jobs import programs
from harness.jobs.drafts import job_spec_update
from harness.jobs.models import Job
from harness.jobs.states import job_note
from worker.states import JobState


def cut_change_mend(*, user: User, job: Job) -> None:
    """Have files and row of a draft tell the same again, by its spec and with the files that people edited.

    Else it would be priced as the program that it was, and run as one that nobody has edited. Raises like
    `job_spec_update`, and `NotFound` where the files are gone.
    """
    if _is_noted(job):
        return
    with transaction.atomic():
        Job.objects.select_for_update().filter(pk=job.pk).values_list("pk").first()
        if _is_noted(job):  # somebody was just changing it
            return
        job.refresh_from_db()
        told = "A change of its program was cut off: it was made anew by its spec, with the files that were edited"
        job_note(job, "note", told)
        job_spec_update(user=user, job=job, spec=job.spec, taken=job.taken)


def _is_noted(job: Job) -> bool:
    """Whether the row tells of the program that lies there; of what is no draft any more nothing is asked."""
    noted = Job.objects.filter(pk=job.pk, state=JobState.DRAFT).values_list("program_sha256", flat=True).first()
    return noted is None or noted == programs.program_of(settings.STORE.job(job.pk)).sha256

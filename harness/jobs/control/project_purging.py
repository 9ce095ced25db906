"""Delete projects for good, in parts: jobs first, then data, then the project; a round that was cut short is gone on
with by the next one."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from harness.accounts.models import Project
from harness.datasets.models import Dataset, Upload, WeightsFile
from harness.datasets.purging import dataset_row_delete
from harness.datasets.uploads import upload_delete
from harness.datasets.weights import weights_row_delete
from harness.jobs.models import Job
from harness.trash import PURGE_BEGUN
from worker.states import HAS_ATTEMPT

_log = logging.getLogger(__name__)


def _due() -> QuerySet[Project]:
    return Project.objects.filter(deleted_at__lt=timezone.now() - timedelta(days=settings.TRASH_DAYS))


def projects_give_up() -> int:
    """Have the jobs of projects whose time in the trash is over deleted by `jobs_purge`; how many."""
    count = 0
    for project_id in list(_due().values_list("pk", flat=True)):
        if _due().filter(pk=project_id).update(deleted_at=PURGE_BEGUN):  # nobody restores it from here on
            jobs = Job.objects.filter(project_id=project_id).exclude(state__in=[str(state) for state in HAS_ATTEMPT])
            given_up = jobs.filter(deleted_at=None) | jobs.exclude(deleted_at=PURGE_BEGUN)
            count += given_up.update(deleted_at=PURGE_BEGUN)
    return count


def projects_purge() -> int:
    """Delete what is left of projects being deleted that have no jobs any more; how many."""
    count = 0
    for project in Project.objects.filter(deleted_at=PURGE_BEGUN, jobs__isnull=True):
        try:
            _project_purge(project)
        except Exception:
            # One that cannot be removed must not keep all later ones.
            _log.exception("cannot purge project %s", project.slug)
        else:
            count += 1
    return count


def _project_purge(project: Project) -> None:
    for dataset in Dataset.objects.filter(project=project):
        with transaction.atomic():
            dataset_row_delete(dataset)
    for weights in WeightsFile.objects.filter(project=project):
        with transaction.atomic():
            weights_row_delete(weights)
    for upload in Upload.objects.filter(project=project):
        upload_delete(upload=upload)
    with transaction.atomic():
        project.delete()

"""Notices that a project's storage has become full. No event says so: figures are measured from time to time."""

from __future__ import annotations

from django.conf import settings
from django.db import transaction

from harness.accounts.models import Project
from harness.notify.messages import Message, one_line
from harness.notify.models import Kind, NotifyChoice, StorageAlarm
from harness.notify.outbox import project_told, tell
from harness.storage.use import ProjectStorage, storage_limits
from worker.words import size_words

FULL_SHARE = 0.95
"""Of its quota: what is let in next is likely refused."""
EASED_SHARE = 0.90
"""Below it the next time counts as a new one."""


def storage_watch() -> None:
    """Tell of projects that have become full since the last look; does nothing while nobody wants to know."""
    if not NotifyChoice.objects.filter(storage_full=True).exists():
        StorageAlarm.objects.all().delete()
        return
    shares = {row: row.use.used_bytes / row.limit_bytes for row in storage_limits() if row.limit_bytes}
    held = {row.project.pk for row, share in shares.items() if share >= EASED_SHARE}
    # One whose quota was taken away has room again, too.
    StorageAlarm.objects.exclude(project__in=held).delete()
    alarmed = set(StorageAlarm.objects.values_list("project_id", flat=True))
    for row, share in shares.items():
        if share >= FULL_SHARE and row.project.pk not in alarmed:
            _alarm(row)


def _alarm(row: ProjectStorage) -> None:
    with transaction.atomic():
        if not Project.objects.select_for_update().filter(pk=row.project.pk).exists():
            return
        alarm, is_new = StorageAlarm.objects.get_or_create(project=row.project)
        if is_new:
            used, limit = size_words(row.use.used_bytes), size_words(row.limit_bytes or 0)
            detail = f"It uses {used} of the {limit} that it may take on the disk. Delete what is no longer needed."
            # By its moment: the number of one that is gone is given anew by a restored database.
            _tell(row.project, f"storage:{row.project.pk}:{alarm.since.isoformat()}", detail)


def _tell(project: Project, about: str, detail: str) -> None:
    """Write the messages that a project's storage is full."""
    message = Message(
        title=one_line(f"{project.name} is out of storage"),
        detail=detail,
        url=f"{settings.PORTAL_URL}/projects/{project.slug}/storage/",
        project=project_told(project),
    )
    tell(Kind.STORAGE_FULL, project, about, message)

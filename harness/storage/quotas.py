"""Storage quotas: how many bytes a project may take. Admins set them; nothing that runs is ended by one."""

from __future__ import annotations

from django.db import transaction

from harness.accounts.access import require_admin
from harness.accounts.audit import audit_write
from harness.accounts.models import Project, User
from harness.errors import Invalid, NotFound
from harness.plain import INTEGER_MAX
from harness.storage.models import StorageQuota


def storage_quota_set(*, user: User, project: Project, limit_bytes: int | None) -> StorageQuota:
    """Say how much a project may take; None: as much as there is. Nothing is deleted. Raises `Forbidden`, `Invalid`."""
    require_admin(user)
    if isinstance(limit_bytes, bool) or not (limit_bytes is None or 0 <= limit_bytes <= INTEGER_MAX):
        raise Invalid(
            "A storage quota is a number of bytes, 0 or more.", field="limit_bytes", hint="Such as 10737418240: 10 GiB."
        )
    with transaction.atomic():
        quota, _ = StorageQuota.objects.update_or_create(project=project, defaults={"limit_bytes": limit_bytes})
        audit_write(user, "storage_quota_set", project.slug, project=project, limit_bytes=limit_bytes)
    return quota


def storage_quota_remove(*, user: User, project: Project) -> None:
    """Have the installation's default hold for a project again. Raises `Forbidden`, `NotFound`."""
    require_admin(user)
    with transaction.atomic():
        removed, _ = StorageQuota.objects.filter(project=project).delete()
        if not removed:
            raise NotFound(f"{project.name} has no storage quota of its own.")
        audit_write(user, "storage_quota_remove", project.slug, project=project)

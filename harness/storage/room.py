"""Whether a project may take more of the disk: asked before anything is added, never of what runs already."""

from __future__ import annotations

from codegen.words import size_words
from harness.accounts.models import Project
from harness.errors import NoSpace
from harness.storage.items import biggest_words
from harness.storage.use import ProjectStorage, storage_limit, storage_of

OVER_QUOTA = "storage_quota"


def storage_check(project: Project, more_bytes: int = 0) -> None:
    """Pass where so many bytes more keep to the project's quota; without any, where it is not used up.

    Raises `NoSpace` (`storage_quota`) that tells what is used, what is allowed and what is largest. Call it in the
    transaction that adds something, after `storage_hold`, where requests at the same time must not all pass.
    """
    if storage_limit(project) is None:  # nothing is added up for nothing
        return
    now = storage_of(project)
    if now.limit_bytes is None or now.use.used_bytes + max(1, more_bytes) <= now.limit_bytes:
        return
    raise NoSpace(
        _words(now, more_bytes),
        code=OVER_QUOTA,
        hint=_hint(now),
        details={
            "project": project.slug,
            "used_bytes": now.use.used_bytes,
            "limit_bytes": now.limit_bytes,
            "needed_bytes": more_bytes,
        },
    )


def storage_hold(project: Project) -> None:
    """Have others who would add to the project wait until the transaction ends."""
    Project.objects.select_for_update().filter(pk=project.pk).values_list("pk").first()


def _words(now: ProjectStorage, more_bytes: int) -> str:
    told = (
        f"{now.project.name} uses {size_words(now.use.used_bytes)} of the {size_words(now.limit_bytes or 0)} "
        "that it may take on the disk"
    )
    return told + (f", and this needs {size_words(more_bytes)} more." if more_bytes else ".")


def _hint(now: ProjectStorage) -> str:
    largest = biggest_words(now.project)
    told = "Delete for good what is no longer needed (Projects, the project, Storage; or dlh pool storage PROJECT)"
    return told + (f"; its largest: {largest}." if largest else ".") + " Or ask an admin for a larger quota."

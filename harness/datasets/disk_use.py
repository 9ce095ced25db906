"""What datasets, weights files and unfinished uploads take of the disk, as `harness.storage` asks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from django.db.models import Count, Max, Q, Sum

from harness.accounts.models import Project, User
from harness.datasets.models import UNFINISHED, Dataset, Upload, WeightsFile
from harness.storage.items import DATASET, UPLOAD, WEIGHTS, StorageItem, Visitor
from harness.storage.use import StorageUse, content_sizes
from harness.trash import PURGE_BEGUN
from worker.words import counted

_SAME = "{} datasets here have the same content: it counts once"


def contents_named(project_ids: list[str]) -> dict[str, dict[str, int]]:
    """Contents that datasets and weights files name: project id -> hash -> size of the file that was uploaded."""
    named: dict[str, dict[str, int]] = defaultdict(dict)
    datasets = Dataset.objects.filter(project__in=project_ids).exclude(sha256="").order_by()
    for project_id, sha256, size in datasets.values_list("project_id", "sha256").annotate(Max("source_bytes")):
        named[project_id][sha256] = size
    weights = WeightsFile.objects.filter(project__in=project_ids).order_by()
    for project_id, sha256, size in weights.values_list("project_id", "sha256", "size_bytes"):
        named[project_id][sha256] = size
    return named


def uploads_use(project_ids: list[str]) -> dict[str, StorageUse]:
    """Of unfinished uploads, by project id."""
    rows = Upload.objects.filter(UNFINISHED, project__in=project_ids).order_by()
    sums = rows.values_list("project_id").annotate(bytes=Sum("size_bytes"))
    return {project_id: StorageUse(upload_bytes=upload_bytes) for project_id, upload_bytes in sums}


def items(project: Project, visitor: Visitor | None, most: int) -> Iterator[StorageItem]:
    """Datasets and weights files, and for somebody who looks unfinished uploads."""
    yield from _datasets(project, visitor)
    yield from _weights(project, visitor)
    if visitor is not None:
        yield from _uploads(project, visitor.user, most)


def _datasets(project: Project, visitor: Visitor | None) -> Iterator[StorageItem]:
    named = contents_named([project.pk]).get(project.pk, {})
    sizes = content_sizes(named)
    kept = Count("jobs", filter=Q(jobs__deleted_at=None) | Q(jobs__deleted_at__gt=PURGE_BEGUN))
    found = Dataset.objects.filter(project=project).select_related("owner").annotate(jobs_count=kept)
    rows = list(found.defer("profile", "options", "problem"))
    same = Counter(row.sha256 for row in rows)
    for row in rows:
        size = sizes.get(row.sha256)
        yield StorageItem(
            kind=DATASET,
            id=row.pk,
            name=row.name,
            owner=row.owner.username,
            used_bytes=size.source_bytes + size.packed_bytes if size else named.get(row.sha256, 0),
            created_at=row.created_at,
            deleted_at=row.deleted_at,
            keeps=jobs_words(row.jobs_count),
            may_delete=visitor is not None and visitor.may_delete(row.owner_id),
            note=_SAME.format(same[row.sha256]) if row.sha256 and same[row.sha256] > 1 else "",
        )


def _weights(project: Project, visitor: Visitor | None) -> Iterator[StorageItem]:
    rows = WeightsFile.objects.filter(project=project).select_related("owner").annotate(jobs_count=Count("jobs"))
    for row in rows:
        yield StorageItem(
            kind=WEIGHTS,
            id=row.pk,
            name=row.name,
            owner=row.owner.username,
            used_bytes=row.size_bytes,
            created_at=row.created_at,
            keeps=jobs_words(row.jobs_count),
            may_delete=visitor is not None and visitor.may_delete(row.owner_id),
        )


def jobs_words(count: int) -> str:
    """Why a dataset or weights file that so many jobs were made of stays; empty where it need not."""
    which = "it" if count == 1 else "those"
    return f"{counted(count, 'job')} used it: delete {which} for good first" if count else ""


def _uploads(project: Project, user: User, most: int) -> Iterator[StorageItem]:
    rows = Upload.objects.filter(UNFINISHED, project=project).select_related("owner")
    for row in rows.order_by("-size_bytes", "pk")[:most]:
        mine = row.owner_id == user.pk
        yield StorageItem(
            kind=UPLOAD,
            id=row.pk,
            name=row.filename if mine else "An upload",  # nobody else sees it before it is a dataset
            owner=row.owner.username,
            used_bytes=row.size_bytes,
            created_at=row.created_at,
            keeps="" if mine else "its owner may give it up, or it expires by itself",
            may_delete=mine,
            note="Not finished yet; it counts with its whole size",
        )

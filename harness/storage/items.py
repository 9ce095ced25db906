"""What a project's bytes are: its datasets, jobs and unfinished uploads, the largest first, and what may be deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Q

from harness.accounts.access import require
from harness.accounts.models import Project, Role, User
from harness.datasets.models import Dataset, Upload
from harness.jobs.models import PURGE_BEGUN, Job
from harness.storage.models import JobSize
from harness.storage.use import content_sizes, contents_named
from worker.states import HOLDS_DEVICES, JobState
from worker.words import counted, size_words

ITEMS_MAX = 100
_ACTIVE = frozenset({JobState.QUEUED, *HOLDS_DEVICES})
_SAME = "{} datasets here have the same content: it counts once"
DATASET, JOB, UPLOAD, EARLIER = "dataset", "job", "upload", "earlier"


@dataclass(frozen=True, kw_only=True)
class StorageItem:
    """One thing that takes disk."""

    kind: str
    """`dataset`, `job`, `upload`, or `earlier`: a dataset as it was read before, which jobs were made for."""
    id: str
    name: str
    owner: str
    used_bytes: int
    created_at: datetime
    checkpoint_bytes: int = 0
    result_bytes: int = 0
    deleted_at: datetime | None = None
    """In the trash since; it counts until it is deleted for good."""
    keeps: str = ""
    """Why it cannot be deleted now, and what would have to go first; empty: it can be."""
    may_delete: bool = False
    """Whether this person may."""
    note: str = ""


def storage_items(*, user: User, project: Project) -> list[StorageItem]:
    """The largest things of a project, at most `ITEMS_MAX`. Raises `NotFound`."""
    role = require(user, project, Role.VIEWER)
    items = [*_datasets(project, user, role), *_jobs(project, user, role), *_uploads(project, user)]
    return sorted(items, key=lambda item: (-item.used_bytes, item.kind, item.id))[:ITEMS_MAX]


def biggest_words(project: Project, count: int = 3) -> str:
    """The largest things in one phrase: `flowers (2.0 GiB), run 7 (1.4 GiB)`; empty where there are none."""
    items = [*_datasets(project), *_jobs(project, most=count)]
    largest = sorted(items, key=lambda item: -item.used_bytes)[:count]
    return ", ".join(f"{item.name} ({size_words(item.used_bytes)})" for item in largest if item.used_bytes)


def _may(user: User | None, role: Role | None, owner_id: int) -> bool:
    if user is None or role is None or role == Role.VIEWER:
        return False
    return role == Role.ADMIN or owner_id == user.pk


def _datasets(project: Project, user: User | None = None, role: Role | None = None) -> Iterable[StorageItem]:
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
            keeps=_jobs_words(row.jobs_count),
            may_delete=_may(user, role, row.owner_id),
            note=_SAME.format(same[row.sha256]) if row.sha256 and same[row.sha256] > 1 else "",
        )
    yield from _earlier(project, set(named) - set(same), sizes)


def _jobs_words(count: int) -> str:
    which = "it" if count == 1 else "those"
    return f"{counted(count, 'job')} used it: delete {which} for good first" if count else ""


def _earlier(project: Project, hashes: set[str], sizes: dict[str, Any]) -> Iterable[StorageItem]:
    """Contents that jobs alone name: their dataset was read anew since."""
    rows = Job.objects.filter(project=project, dataset_sha256__in=hashes).exclude(deleted_at=PURGE_BEGUN)
    first: dict[str, Job] = {}
    jobs: Counter[str] = Counter()
    for job in rows.select_related("dataset__owner").only(
        "dataset_sha256", "created_at", "dataset__name", "dataset__owner__username"
    ):
        first.setdefault(job.dataset_sha256, job)
        jobs[job.dataset_sha256] += 1
    for sha256, job in first.items():
        size = sizes.get(sha256)
        yield StorageItem(
            kind=EARLIER,
            id=job.dataset_id,
            name=f"{job.dataset.name}, as it was read before",
            owner=job.dataset.owner.username,
            used_bytes=size.packed_bytes if size else 0,
            created_at=job.created_at,
            keeps=_jobs_words(jobs[sha256]),
        )


def _jobs(
    project: Project, user: User | None = None, role: Role | None = None, most: int = ITEMS_MAX
) -> Iterable[StorageItem]:
    all_bytes = F("checkpoint_bytes") + F("result_bytes") + F("other_bytes")
    rows = (
        JobSize.objects.filter(job__project=project)
        .exclude(job__deleted_at=PURGE_BEGUN)
        .annotate(all_bytes=all_bytes)
        .select_related("job__owner")
        .only(
            "checkpoint_bytes", "result_bytes", "other_bytes", "job__name", "job__state", "job__owner__username",
            "job__owner_id", "job__created_at", "job__deleted_at",
        )
        .order_by("-all_bytes", "pk")[:most]
    )  # fmt: skip
    for row in rows:
        active = JobState(row.job.state) in _ACTIVE
        yield StorageItem(
            kind=JOB,
            id=row.job_id,
            name=row.job.name,
            owner=row.job.owner.username,
            used_bytes=row.checkpoint_bytes + row.result_bytes + row.other_bytes,
            checkpoint_bytes=row.checkpoint_bytes,
            result_bytes=row.result_bytes,
            created_at=row.job.created_at,
            deleted_at=row.job.deleted_at,
            keeps="it waits or runs: cancel it first" if active else "",
            may_delete=_may(user, role, row.job.owner_id),
        )


def _uploads(project: Project, user: User) -> Iterable[StorageItem]:
    rows = Upload.objects.filter(project=project, dataset=None).select_related("owner")
    for row in rows.order_by("-size_bytes", "pk")[:ITEMS_MAX]:
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

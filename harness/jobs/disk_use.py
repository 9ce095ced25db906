"""What jobs take of the disk, as `harness.storage` asks: their folders, and the contents that they were made of."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from django.db.models import F, Sum

from harness.accounts.models import Project
from harness.datasets.disk_use import jobs_words
from harness.datasets.models import Dataset
from harness.jobs.models import Job
from harness.storage.items import EARLIER, JOB, StorageItem, Visitor
from harness.storage.models import JobSize
from harness.storage.use import StorageUse, content_sizes
from harness.trash import PURGE_BEGUN
from worker.states import HAS_ATTEMPT, JobState

_ACTIVE = frozenset({JobState.QUEUED, *HAS_ATTEMPT})


def contents_named(project_ids: list[str]) -> dict[str, dict[str, int]]:
    """Contents that jobs were made of: project id -> hash -> 0, since they do not know its size."""
    named: dict[str, dict[str, int]] = defaultdict(dict)
    jobs = Job.objects.filter(project__in=project_ids).exclude(dataset_sha256="").exclude(deleted_at=PURGE_BEGUN)
    for project_id, sha256 in jobs.order_by().values_list("project_id", "dataset_sha256").distinct():
        named[project_id][sha256] = 0
    return named


def jobs_use(project_ids: list[str]) -> dict[str, StorageUse]:
    """Of the folders of jobs, by project id."""
    rows = (
        JobSize.objects.filter(job__project__in=project_ids)
        .exclude(job__deleted_at=PURGE_BEGUN)
        .order_by()
        .values_list("job__project_id")
        .annotate(Sum("checkpoint_bytes"), Sum("result_bytes"), Sum("other_bytes"))
    )
    return {
        project_id: StorageUse(
            checkpoint_bytes=checkpoint_bytes or 0, result_bytes=result_bytes or 0, other_bytes=other_bytes or 0
        )
        for project_id, checkpoint_bytes, result_bytes, other_bytes in rows
    }


def items(project: Project, visitor: Visitor | None, most: int) -> Iterator[StorageItem]:
    """The largest jobs, and contents that jobs alone name: their dataset was read anew since."""
    yield from _jobs(project, visitor, most)
    yield from _earlier(project)


def _jobs(project: Project, visitor: Visitor | None, most: int) -> Iterator[StorageItem]:
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
            may_delete=visitor is not None and visitor.may_delete(row.job.owner_id),
        )


def _earlier(project: Project) -> Iterator[StorageItem]:
    """Contents that jobs alone name: their dataset was read anew since."""
    datasets = Dataset.objects.filter(project=project).values_list("sha256", flat=True)
    hashes = set(contents_named([project.pk]).get(project.pk, {})) - set(datasets)
    sizes = content_sizes(hashes)
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
            keeps=jobs_words(jobs[sha256]),
        )

"""Contents of datasets that nothing names any more: a dataset does, and each job that was made of it."""

from __future__ import annotations

from harness.datasets.models import Dataset
from harness.datasets.purging import content_remove, contents_purge
from harness.jobs.models import Job


def content_purge(sha256: str) -> bool:
    """Remove a content at once where nothing names it; whether it is gone."""
    return content_remove(sha256, _is_named)


def _is_named(sha256: str) -> bool:
    return Dataset.objects.filter(sha256=sha256).exists() or Job.objects.filter(dataset_sha256=sha256).exists()


def contents_tidy() -> int:
    """Remove all that nothing names; how many."""
    keep = {*Dataset.objects.values_list("sha256", flat=True), *Job.objects.values_list("dataset_sha256", flat=True)}
    # A database that names none is another one than the store's, or was lost: then nothing goes.
    return contents_purge(keep) if keep else 0

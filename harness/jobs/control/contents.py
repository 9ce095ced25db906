"""Contents that nothing names any more: a dataset or weights file does, and each job that was made of a dataset."""

from __future__ import annotations

from harness.datasets.models import Dataset, WeightsFile
from harness.datasets.purging import content_remove, contents_purge
from harness.jobs.models import Job


def content_purge(sha256: str) -> bool:
    """Remove a content at once where nothing names it; whether it is gone."""
    return content_remove(sha256, _is_named)


def _is_named(sha256: str) -> bool:
    rows = Dataset.objects.filter(sha256=sha256), WeightsFile.objects.filter(sha256=sha256)
    return any(named.exists() for named in (*rows, Job.objects.filter(dataset_sha256=sha256)))


def contents_tidy() -> int:
    """Remove all that nothing names; how many."""
    keep = {*Dataset.objects.values_list("sha256", flat=True), *WeightsFile.objects.values_list("sha256", flat=True)}
    keep |= {*Job.objects.values_list("dataset_sha256", flat=True)}
    # A database that names none is another one than the store's, or was lost: then nothing goes.
    return contents_purge(keep) if keep else 0

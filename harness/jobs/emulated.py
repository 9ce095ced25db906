"""Which jobs ran on devices that were declared slower than they are: not the times and speeds of a real machine."""

from __future__ import annotations

from collections.abc import Iterable

from harness.jobs.models import Job, JobAttempt
from harness.jobs.plan_rows import ranks_read


def emulated_devices(jobs: Iterable[Job]) -> dict[str, str]:
    """Job id -> its slowed devices in words ("node-1 cpu 3 times"), over all attempts; other jobs are left out."""
    ids = [job.pk for job in jobs]
    found: dict[str, dict[str, None]] = {}
    for job_id, ranks in JobAttempt.objects.filter(job__in=ids).order_by("pk").values_list("job_id", "plan__ranks"):
        for rank in ranks_read(ranks or ()):
            if rank.slowdown > 1.0:
                device = f"{rank.node} {rank.device}".strip()
                found.setdefault(job_id, {})[f"{device} {rank.slowdown:g} times"] = None
    return {job_id: ", ".join(words) for job_id, words in found.items()}


def emulated_words(job: Job) -> str:
    """The same of one job; empty where all its devices were as fast as they are."""
    return emulated_devices([job]).get(job.pk, "")

"""Drafts whose steps have other rows than usual: long runs, how they are submitted, and what is told of them."""

from __future__ import annotations

from typing import Any

from harness.jobs.models import Job
from harness.rates.submitting import job_submit
from harness.rates.tasks import rate_first

LONG = {"batch_size": 8, "epochs": 2000}


def submit(job: Job, commit: Any, tasks_sent: list[Any]) -> Job:
    """Submit it, and do what control is asked to."""
    commit(job_submit, user=job.owner, job=job)
    for name, arguments, _ in [sent for sent in tasks_sent if sent[0] == "control.rate_first"]:
        commit(rate_first, *arguments)
        tasks_sent.remove((name, arguments, _))
    job.refresh_from_db()
    return job


def told(job: Job) -> str:
    return " | ".join(job.events.order_by("pk").values_list("message", flat=True))

"""Celery tasks of estimates: translate only."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from harness.estimates import retention, services


@shared_task(name="control.inspect_done")
def inspect_done(report: dict[str, Any]) -> None:
    """A node's answer to `node.inspect`."""
    services.inspection_answer(report)


@shared_task(name="control.estimate_job")
def estimate_job(job_id: str) -> None:
    """Estimate a job that was submitted without an offer."""
    services.job_estimate(job_id)


@shared_task(name="control.estimate_waiting")
def estimate_waiting() -> None:
    """Estimate queued jobs that have no estimate yet."""
    services.jobs_estimate()


@shared_task(name="control.estimates_renew")
def estimates_renew() -> None:
    """Devices were declared slower or faster, or a calibration ended: estimate jobs again that have not started."""
    services.estimates_renew()


@shared_task(name="control.probes_watch")
def probes_watch() -> None:
    """End probes that nobody waits for."""
    retention.probes_watch()


@shared_task(name="control.estimates_retention")
def estimates_retention() -> None:
    """Clean up."""
    retention.estimates_retention()

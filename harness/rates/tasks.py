"""Celery tasks of range tests: translate only."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from harness.rates import first, retention, sending


@shared_task(name="control.rate_range_done")
def rate_range_done(report: dict[str, Any]) -> None:
    """A node's progress, or its answer to `node.rate_range`."""
    test = sending.rate_test_told(report)
    if test is not None:
        first.rate_after(test)


@shared_task(name="control.rate_first")
def rate_first(job_id: str, user_id: int) -> None:
    """Test a draft before it is submitted."""
    first.rate_first(job_id, user_id)


@shared_task(name="control.rates_advance")
def rates_advance() -> None:
    """Send tests that wait for a device; end those that nobody answers."""
    retention.rates_advance()

"""Celery tasks of messages: translate only."""

from __future__ import annotations

from celery import shared_task

from harness.notify.sending import deliveries_begin


@shared_task(name="control.notify")
def notify() -> None:
    """Send messages that are due."""
    deliveries_begin()

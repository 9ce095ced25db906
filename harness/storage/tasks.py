"""Celery tasks of storage: translate only."""

from __future__ import annotations

from celery import shared_task

from harness.notify.sending import deliveries_tidy
from harness.storage.watch import storage_watch


@shared_task(name="control.notify_watch")
def notify_watch() -> None:
    """Look at projects' storage; end messages that nobody sends any more."""
    storage_watch()
    deliveries_tidy()

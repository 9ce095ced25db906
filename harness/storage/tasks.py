"""Celery tasks of storage: translate only."""

from __future__ import annotations

from celery import shared_task

from harness.beside import Beside
from harness.notify.sending import deliveries_tidy
from harness.storage.refresh import sizes_refresh
from harness.storage.watch import storage_watch

_measuring = Beside("sizes", sizes_refresh)


@shared_task(name="control.sizes_refresh")
def sizes_measure() -> None:
    """Measure what changed."""
    _measuring.begin()


@shared_task(name="control.notify_watch")
def notify_watch() -> None:
    """Look at projects' storage; end messages that nobody sends any more."""
    storage_watch()
    deliveries_tidy()

"""Celery tasks of storage: translate only."""

from __future__ import annotations

from celery import shared_task

from harness.beside import Beside
from harness.storage.refresh import sizes_refresh

_measuring = Beside("sizes", sizes_refresh)


@shared_task(name="control.sizes_refresh")
def sizes_measure() -> None:
    """Measure what changed."""
    _measuring.begin()

"""Celery tasks of fetches: translate only."""

from __future__ import annotations

from celery import shared_task

from harness.fetches.running import fetches_begin


@shared_task(name="control.fetch")
def fetch() -> None:
    """Fetch what is due."""
    fetches_begin()

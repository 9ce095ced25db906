"""Celery tasks of the object store: translate only."""

from __future__ import annotations

from celery import shared_task

from harness.bucket.mirror import mirror_begin


@shared_task(name="control.bucket_mirror")
def bucket_mirror() -> None:
    """Copy what changed in the store to the object store."""
    mirror_begin()

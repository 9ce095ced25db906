"""Celery tasks of datasets: translate only."""

from __future__ import annotations

from celery import shared_task

from harness.datasets.reading import dataset_read_start


@shared_task(name="control.dataset_profile", time_limit=60)
def dataset_profile(dataset_id: str) -> None:
    """Begin to read and pack one dataset."""
    dataset_read_start(dataset_id)

"""Celery tasks of jobs: translate only."""

from __future__ import annotations

import logging
from typing import Any

import redis
from celery import shared_task

from harness.beside import Beside
from harness.jobs import check_queue, exports, predictions
from harness.jobs.control import contents
from harness.jobs.control import ingest as ingest_module
from harness.jobs.control import reconcile as reconcile_module
from harness.jobs.control import retention as retention_module
from harness.jobs.control import tick as tick_module
from harness.jobs.control.sizing import sizes_refresh

_log = logging.getLogger(__name__)
_purging = Beside("purge", retention_module.jobs_purge_asked)
_measuring = Beside("sizes", sizes_refresh)


@shared_task(name="control.tick")
def tick() -> None:
    """Place queued jobs."""
    tick_module.tick()


@shared_task(name="control.ingest")
def ingest() -> None:
    """Take in events; without a broker there are none."""
    try:
        ingest_module.ingest()
    except (redis.ConnectionError, redis.TimeoutError) as error:
        _log.warning("no events: %s", error)


@shared_task(name="control.reconcile")
def reconcile() -> None:
    """Make what is wanted and what is agree."""
    reconcile_module.reconcile()


@shared_task(name="control.retention")
def retention() -> None:
    """Clean up."""
    retention_module.retention()


@shared_task(name="control.jobs_purge")
def jobs_purge() -> None:
    """Delete for good what people no longer want."""
    _purging.begin()


@shared_task(name="control.content_purge")
def content_purge(sha256: str) -> None:
    """Remove a content that nothing names."""
    contents.content_purge(sha256)


@shared_task(name="control.sizes_refresh")
def sizes_measure() -> None:
    """Measure what changed."""
    _measuring.begin()


@shared_task(name="control.prediction_done")
def prediction_done(report: dict[str, Any]) -> None:
    """A node's answer to `node.predict`."""
    predictions.prediction_done(report)


@shared_task(name="control.export_done")
def export_done(report: dict[str, Any]) -> None:
    """A node's answer to `node.export`."""
    exports.export_done(report)


@shared_task(name="control.check_begun")
def check_begun(told: dict[str, Any]) -> None:
    """A node is at a `node.check` now."""
    check_queue.check_begun(str(told.get("check_id", "")))


@shared_task(name="control.check_done")
def check_done(report: dict[str, Any]) -> None:
    """A node's answer to `node.check`."""
    predictions.check_done(report)

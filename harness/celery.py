"""The control process's Celery app: JSON only, short tasks, a beat that never piles up.

`celery -A harness.celery:app worker -Q control`. Tasks are sent by name (`harness.broker.task_send`).
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from celery import Celery
from celery.signals import heartbeat_sent, worker_ready, worker_shutdown

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "harness.settings")
# Celery would have Django check all pages at each start of control, which opens none, and ignore what it finds.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

from django.conf import settings

from harness.beat import Beat, every

INGEST_PERIOD_S = 1.0
TICK_PERIOD_S = 2.0
RECONCILE_PERIOD_S = 5.0
CALIBRATE_PERIOD_S = 3.0
ESTIMATE_PERIOD_S = 60.0
PROBES_PERIOD_S = 5.0
RATES_PERIOD_S = 10.0
RETENTION_PERIOD_S = 600.0
SIZES_PERIOD_S = 20.0
MIRROR_PERIOD_S = 15.0
NOTIFY_PERIOD_S = 5.0
NOTIFY_WATCH_PERIOD_S = 60.0
FETCH_PERIOD_S = 3.0
SEND_ANSWER_S = 5.0
"""So long each answer of the broker is waited for by who sends a task."""


def _beat(task: str, period_s: float) -> dict[str, Any]:
    # A tick nobody took in time says nothing that the next one does not: it expires.
    return {
        "task": task,
        "schedule": every(period_s),
        "options": {"queue": "control", "expires": max(3.0, 2 * period_s)},
    }


def celery_config(redis_url: str) -> dict[str, Any]:
    """Settings of the control app and of whoever sends tasks."""
    return {
        "broker_url": redis_url,
        "broker_connection_retry_on_startup": True,
        "broker_transport_options": {
            "visibility_timeout": 3600,
            "socket_timeout": None,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            # For who sends a task while the broker is away: the database is the truth, and people wait.
            "connect_retries_timeout": 1,
            "interval_start": 0.1,
            "interval_step": 0.1,
            "interval_max": 0.3,
        },
        "task_publish_retry_policy": {"max_retries": 1, "interval_start": 0.1, "interval_step": 0.1},
        "accept_content": ["json"],
        "task_serializer": "json",
        "result_serializer": "json",
        "task_ignore_result": True,
        "task_default_queue": "control",
        "task_acks_late": False,
        "worker_pool": "threads",
        "worker_concurrency": 4,
        "worker_prefetch_multiplier": 1,
        "worker_hijack_root_logger": False,
        "worker_send_task_events": False,
        # Nobody uses it, and no login of a node reaches it, but its socket notices a broker that went away while tasks
        # were acknowledged: without it control sometimes waited for ever on a connection that was gone.
        "worker_enable_remote_control": True,
        "enable_utc": True,
    }


class App(Celery):
    """Reads as long as nothing comes; who sends a task does not wait for ever for a broker that hangs."""

    def connection_for_write(self, url: str | None = None, **options: Any) -> Any:
        """As Celery makes it, with a limit for each answer."""
        options["transport_options"] = {"socket_timeout": SEND_ANSWER_S, **(options.get("transport_options") or {})}
        return super().connection_for_write(url, **options)


app = App("harness")
app.conf.update(celery_config(settings.REDIS_URL))
app.conf.beat_schedule = {
    "ingest": _beat("control.ingest", INGEST_PERIOD_S),
    "tick": _beat("control.tick", TICK_PERIOD_S),
    "reconcile": _beat("control.reconcile", RECONCILE_PERIOD_S),
    "calibrate": _beat("control.calibrate", CALIBRATE_PERIOD_S),
    "estimate_waiting": _beat("control.estimate_waiting", ESTIMATE_PERIOD_S),
    "probes_watch": _beat("control.probes_watch", PROBES_PERIOD_S),
    "rates_advance": _beat("control.rates_advance", RATES_PERIOD_S),
    "retention": _beat("control.retention", RETENTION_PERIOD_S),
    "sizes_refresh": _beat("control.sizes_refresh", SIZES_PERIOD_S),
    "notify": _beat("control.notify", NOTIFY_PERIOD_S),
    "notify_watch": _beat("control.notify_watch", NOTIFY_WATCH_PERIOD_S),
    "fetch": _beat("control.fetch", FETCH_PERIOD_S),
    "estimates_retention": _beat("control.estimates_retention", RETENTION_PERIOD_S),
}
if settings.S3 is not None:
    app.conf.beat_schedule["bucket_mirror"] = _beat("control.bucket_mirror", MIRROR_PERIOD_S)
app.autodiscover_tasks(
    [
        "harness.jobs", "harness.datasets", "harness.pool", "harness.measuring", "harness.estimates",
        "harness.rates", "harness.bucket", "harness.storage", "harness.notify", "harness.fetches",
    ]
)  # fmt: skip


beat = Beat(app)


@worker_ready.connect
def _beat_start(**_: Any) -> None:
    beat.start()


@worker_shutdown.connect
def _beat_stop(**_: Any) -> None:
    beat.stop()


@heartbeat_sent.connect
def _alive(**_: Any) -> None:
    """Every two seconds from the loop that takes tasks; `harness.stack.part health control` looks at it."""
    with suppress(OSError):  # a full disk ends nothing
        (settings.HOME / "run" / "control.alive").touch()

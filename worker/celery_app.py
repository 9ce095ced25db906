"""The node's Celery app: JSON only, short tasks, a heartbeat beside them.

Started as `python -m worker.agent`. Reads `DLH_REDIS_URL` and `DLH_NODE_NAME`.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import redis
from celery import Celery
from celery.signals import heartbeat_sent, worker_ready, worker_shutdown, worker_shutting_down
from kombu import Queue
from kombu.exceptions import KombuError

from worker.cuts import cut_options
from worker.home import ends_runs, node_name, redis_url, run_dir
from worker.queues import node_queue_name, unacked_keys

DEFAULT_URL = "redis://127.0.0.1:6379/0"
QUEUE = node_queue_name(node_name())
CONTROL = Queue("control", no_declare=True)
"""Control declares its queue; whoever could would have others' messages come to its own as well."""
CUT_S = 20
"""A connection to the broker over which nothing gets through for this long is given up and made anew. Without it a node
whose network was cut would wait for TCP's own patience: minutes after the network is back, or for ever."""
ANSWER_S = 120.0
"""So long an answer waits for the broker."""
ANSWER_FIRST_S, ANSWER_MOST_S = 0.5, 8.0

# No fixups: with DJANGO_SETTINGS_MODULE in its environment Celery would load Django into the node.
app = Celery("node", include=["worker.tasks"], fixups=[])
app.conf.update(
    broker_url=redis_url() or DEFAULT_URL,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,  # a node that is cut off for hours comes back by itself
    broker_transport_options={
        "visibility_timeout": 3600,
        "socket_timeout": None,
        "socket_connect_timeout": 5,
        "socket_keepalive": True,
        "socket_keepalive_options": cut_options(CUT_S),
        **unacked_keys(QUEUE),
    },
    task_publish_retry_policy={"max_retries": 1, "interval_start": 0.1, "interval_step": 0.1},
    accept_content=["json"],
    task_serializer="json",
    result_serializer="json",
    task_ignore_result=True,
    task_default_queue=QUEUE,
    task_queues=[Queue(QUEUE), CONTROL],
    task_acks_late=False,
    worker_pool="threads",
    worker_concurrency=4,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    control_exchange=QUEUE,  # see `mailbox_name`
    control_queue_expires=None,  # deadlines of queues lie in one table for all, which no node reaches
    enable_utc=True,
)


def send_to_control(task: str, arguments: list[Any], *, expires_s: float | None = None) -> None:
    """Send a task to control by name. Raises kombu's `OperationalError` while the broker is away."""
    app.send_task(task, arguments, queue=CONTROL.name, expires=expires_s)


def answer_to_control(task: str, answer: dict[str, Any]) -> None:
    """Tell control what it asked for, which took a program some time: an absent broker is waited for, as control waits.

    Raises kombu's `OperationalError` after `ANSWER_S`.
    """
    end_s, wait_s = time.monotonic() + ANSWER_S, ANSWER_FIRST_S
    while True:
        try:
            send_to_control(task, [answer])
        except (KombuError, redis.RedisError, OSError):
            if time.monotonic() + wait_s > end_s:
                raise
        else:
            return
        time.sleep(wait_s)
        wait_s = min(ANSWER_MOST_S, 2 * wait_s)


@worker_ready.connect
def _start_heartbeat(**_: Any) -> None:
    from worker import chores, heartbeat

    heartbeat.heartbeat().start()
    chores.begin()


@worker_shutting_down.connect
def _begin_to_leave(**_: Any) -> None:
    """What runs saves while tasks that are under way come to their end: a container has one time for both."""
    from worker import agent

    if ends_runs():
        agent.stop_begin()


@worker_shutdown.connect
def _leave(**_: Any) -> None:
    from worker import agent, heartbeat
    from worker.readers.pool import readers

    readers().close()
    if ends_runs():
        heartbeat.heartbeat().leave()
        agent.stop_all()
    else:
        heartbeat.heartbeat().stop()


@heartbeat_sent.connect
def _alive(**_: Any) -> None:
    """Every two seconds from the loop that takes tasks, for whoever looks whether this process still works."""
    with suppress(OSError):  # a full disk ends nothing
        (run_dir() / "node.alive").touch()

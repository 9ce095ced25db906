"""The broker: one Redis client per process, tasks sent by name, live events published.

The database is the truth: whatever is lost here is sent again by the reconciler, so nothing in this module raises
because the broker is away; it logs and says so by its return value.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import redis
import redis.asyncio
from celery import Celery
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError
from redis.backoff import ExponentialBackoff
from redis.retry import Retry

from worker.clock import clock_ahead_s
from worker.events import LIVE_KEEP_S, finite, job_stream

AWAY_S = 3.0
"""After a failure nothing is sent for so long: nobody who waits for an answer need wait for a broker that is away."""
RETRY_FIRST_S, RETRY_MOST_S, RETRIES = 0.05, 0.2, 4
"""0.7 s in all: a broker that is started again at once loses no word."""
ANSWER_S, CONNECT_S = 5.0, 2.0
"""So long a short command waits for an answer, and for a connection."""
UNREADABLE = "replace"
"""What becomes of bytes in a stream that are no UTF-8: who raised at them would read nothing behind them, ever."""
ASYNC_CONNECTIONS, ASYNC_WAIT_S = 50, 20
JOB_STREAM_LENGTH = 20_000
PROJECT_STREAM_LENGTH = 5_000
POOL_STREAM = "dlh:pool"
ENDLESS = -1
"""What the broker says of a key that is there and never goes."""
_log = logging.getLogger(__name__)


def project_stream(project_id: str) -> str:
    """Stream of what happens to the jobs and datasets of one project; field `event` holds JSON."""
    return f"dlh:project:{project_id}"


class _Gate:
    """Closed for a while after a failure; one for each broker."""

    def __init__(self) -> None:
        self._opens_s: dict[str, float] = {}

    @property
    def is_closed(self) -> bool:
        return time.monotonic() < self._opens_s.get(settings.REDIS_URL, 0.0)

    def close(self) -> None:
        self._opens_s[settings.REDIS_URL] = time.monotonic() + AWAY_S


_tasks, _words = _Gate(), _Gate()


@cache
def client() -> redis.Redis:
    """The process's client for short commands."""
    # Where no answer comes it is not asked again: five times the wait, each time, for whoever waits for a page.
    backoff = ExponentialBackoff(cap=RETRY_MOST_S, base=RETRY_FIRST_S)
    retry = Retry(backoff, RETRIES, supported_errors=(redis.ConnectionError,))
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=ANSWER_S,
        socket_connect_timeout=CONNECT_S,
        decode_responses=True,
        encoding_errors=UNREADABLE,
        retry=retry,
    )


def own_clock_ahead_s() -> float | None:
    """How far our clock is ahead of the broker's; None: it cannot be told now."""
    try:
        return clock_ahead_s(client())
    except redis.RedisError:
        return None


def client_async() -> redis.asyncio.Redis:
    """A new client for blocking reads: no socket timeout, which would cut `XREAD BLOCK`.

    Who finds all its connections busy waits for one: hundreds of pages may open in the same moment.
    """
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        settings.REDIS_URL,
        max_connections=ASYNC_CONNECTIONS,
        timeout=ASYNC_WAIT_S,
        socket_timeout=None,
        socket_connect_timeout=5,
        decode_responses=True,
        encoding_errors=UNREADABLE,
    )
    return redis.asyncio.Redis.from_pool(pool)


@cache
def sender() -> Celery:
    """The Celery app as a sender of tasks."""
    from harness.celery import app

    return app


def task_send(name: str, args: Sequence[Any] = (), *, queue: str = "control", expires_s: float | None = None) -> bool:
    """Send a task by name now. Returns False, with a log line, where the broker is away."""
    if _tasks.is_closed:
        return False
    try:
        sender().send_task(name, list(args), queue=queue, expires=expires_s)
    except (OperationalError, redis.RedisError, OSError) as error:
        _log.warning("cannot send %s to %s: %s", name, queue, error)
        _tasks.close()
        return False
    return True


def task_send_on_commit(
    name: str, args: Sequence[Any] = (), *, queue: str = "control", expires_s: float | None = None
) -> None:
    """Send a task when the current transaction commits."""
    transaction.on_commit(lambda: task_send(name, args, queue=queue, expires_s=expires_s), robust=True)


def publish(stream: str, kind: str, data: dict[str, Any], *, length: int = PROJECT_STREAM_LENGTH) -> None:
    """Append `{"kind", "time_s", "data"}` to a live stream when the transaction commits."""
    publish_all([(stream, kind, data)], length=length)


def publish_all(words: Sequence[tuple[str, str, dict[str, Any]]], *, length: int = PROJECT_STREAM_LENGTH) -> None:
    """The same for many (stream, kind, data), in one go."""
    now_s = time.time()
    bodies = [
        (
            stream,
            json.dumps(
                {"kind": kind, "time_s": now_s, "data": finite(data)},
                separators=(",", ":"),
                allow_nan=False,
                default=str,
            ),
        )
        for stream, kind, data in words
    ]

    def send() -> None:
        if _words.is_closed or not bodies:
            return
        try:
            if len(bodies) == 1:
                client().xadd(bodies[0][0], {"event": bodies[0][1]}, maxlen=length, approximate=True)
                client().expire(bodies[0][0], LIVE_KEEP_S)
                return
            with client().pipeline(transaction=False) as pipe:
                for stream, body in bodies:
                    pipe.xadd(stream, {"event": body}, maxlen=length, approximate=True)
                for stream in {stream for stream, _ in bodies}:
                    pipe.expire(stream, LIVE_KEEP_S)
                pipe.execute()
        except redis.RedisError as error:
            _log.warning("cannot publish to %s: %s", bodies[0][0], error)
            _words.close()

    transaction.on_commit(send, robust=True)


def publish_job(project_id: str, job_id: str, kind: str, data: dict[str, Any]) -> None:
    """Tell those who watch the job and those who watch its project's lists."""
    publish(job_stream(job_id), kind, {"job_id": job_id, **data}, length=JOB_STREAM_LENGTH)
    publish(project_stream(project_id), "job", {"job_id": job_id, "event": kind, **data})


def publish_dataset(project_id: str, dataset_id: str, data: dict[str, Any]) -> None:
    """Tell those who watch the project that a dataset changed."""
    publish(project_stream(project_id), "dataset", {"dataset_id": dataset_id, **data})


def publish_pool(kind: str, data: dict[str, Any]) -> None:
    """Tell those who watch the pool."""
    publish(POOL_STREAM, kind, data)


def live_streams_expire() -> int:
    """See to it that every live stream goes some day; returns how many had no end. Raises `redis.RedisError`.

    Releases before set none, and a broker may be lost between a stream's word and its end.
    """
    names = {POOL_STREAM}
    for pattern in (job_stream("*"), project_stream("*")):
        names.update(client().scan_iter(match=pattern, count=1000))
    known = sorted(names)
    with client().pipeline(transaction=False) as pipe:
        for name in known:
            pipe.ttl(name)
        endless = [name for name, ends_s in zip(known, pipe.execute(), strict=True) if ends_s == ENDLESS]
        for name in endless:
            pipe.expire(name, LIVE_KEEP_S)
        pipe.execute()
    return len(endless)

"""Trial runs that nodes have not answered, so that one that waits for others can say so.

They are kept by the broker alone: what it forgets is not told, and nothing else depends on it.
"""

from __future__ import annotations

import time
from contextlib import suppress

import redis

from harness.broker import client
from harness.jobs.models import Job

ASKED_KEY, BEGUN_KEY = "dlh:checks", "dlh:checks:begun"
"""Hashes: id of a trial run -> its node, and -> the Unix time at which the node began with it."""
KEEP_S = 300
"""Nobody waits for an answer for longer."""


def check_asked(check_id: str, node: str) -> None:
    """Keep that a node was asked."""
    with suppress(redis.RedisError), client().pipeline(transaction=False) as pipe:
        pipe.hset(ASKED_KEY, check_id, node)
        pipe.expire(ASKED_KEY, KEEP_S)
        pipe.execute()


def check_begun(check_id: str) -> None:
    """Keep that its node is at it now."""
    with suppress(redis.RedisError), client().pipeline(transaction=False) as pipe:
        pipe.hset(BEGUN_KEY, check_id, f"{time.time():.3f}")
        pipe.expire(BEGUN_KEY, KEEP_S)
        pipe.execute()


def check_ended(check_id: str) -> None:
    """Forget it: it has its answer."""
    with suppress(redis.RedisError):
        for key in (ASKED_KEY, BEGUN_KEY):
            client().hdel(key, check_id)


def check_waits_for(job: Job, check_id: str) -> str:
    """What a trial run of a job waits for, such as `another check of wine`; empty where its node is at it."""
    try:
        asked, begun = client().hgetall(ASKED_KEY), client().hgetall(BEGUN_KEY)
    except redis.RedisError:
        return ""
    node, now_s = asked.get(check_id), time.time()
    ahead = [one for one, since_s in begun.items() if asked.get(one) == node and now_s - float(since_s) < KEEP_S]
    if node is None or check_id in begun or not ahead:
        return ""
    first = str(min(ahead, key=lambda one: float(begun[one]))).partition("-")[0]
    name = Job.objects.filter(pk=first, project=job.project_id).values_list("name", flat=True).first()
    return f"another check of {name}" if name else "a check of another project"

"""Trial runs that nodes have not answered, so that one that waits can say for what, and how long they take.

They are kept by the broker alone: what it forgets is not told, and nothing else depends on it.
"""

from __future__ import annotations

import json
import statistics
import time
from contextlib import suppress
from dataclasses import asdict, dataclass

import redis

from harness.broker import client
from harness.jobs.models import Job

ASKED_KEY, BEGUN_KEY = "dlh:checks", "dlh:checks:begun"
"""Hashes: id of a trial run -> what was asked, and -> the Unix time at which the node began with it."""
TOOK_KEY = "dlh:checks:took"
"""A list: how many seconds the last ones took, newest first."""
TOOK_KEPT = 20
KEEP_S = 300
"""Nobody waits for an answer for longer."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A trial run that a node was asked for."""

    node: str
    program_sha256: str
    """Of the program as it was then."""
    asked_s: float
    """Unix time."""


def check_asked(check_id: str, node: str, program_sha256: str) -> None:
    """Keep that a node was asked."""
    asked = Asked(node=node, program_sha256=program_sha256, asked_s=round(time.time(), 3))
    with suppress(redis.RedisError), client().pipeline(transaction=False) as pipe:
        pipe.hset(ASKED_KEY, check_id, json.dumps(asdict(asked)))
        pipe.expire(ASKED_KEY, KEEP_S)
        pipe.execute()


def check_begun(check_id: str) -> None:
    """Keep that its node is at it now."""
    with suppress(redis.RedisError), client().pipeline(transaction=False) as pipe:
        pipe.hset(BEGUN_KEY, check_id, f"{time.time():.3f}")
        pipe.expire(BEGUN_KEY, KEEP_S)
        pipe.execute()


def check_ended(check_id: str) -> Asked | None:
    """Forget it, since it has its answer, and keep how long its node took. Returns what was asked, if that is known."""
    with suppress(redis.RedisError), client().pipeline(transaction=False) as pipe:
        for verb in (pipe.hget, pipe.hdel):
            for key in (ASKED_KEY, BEGUN_KEY):
                verb(key, check_id)
        asked, begun_s = pipe.execute()[:2]
        if asked and begun_s:
            pipe.lpush(TOOK_KEY, f"{max(0.0, time.time() - float(begun_s)):.3f}")
            pipe.ltrim(TOOK_KEY, 0, TOOK_KEPT - 1)
            pipe.execute()
        return Asked(**json.loads(asked)) if asked else None
    return None


def check_waiting(job: Job) -> tuple[str, Asked] | None:
    """The last trial run of a job that has no answer yet, with its id."""
    now_s = time.time()
    mine = [one for one in _all_asked().items() if one[0].partition("-")[0] == job.pk]
    waiting = [one for one in mine if now_s - one[1].asked_s < KEEP_S]
    return max(waiting, key=lambda one: one[1].asked_s, default=None)


def checks_took_s() -> tuple[float, float] | None:
    """How long the last trial runs took from their begin on: median and longest; None until there are some."""
    try:
        took_s = [float(text) for text in client().lrange(TOOK_KEY, 0, -1)]
    except redis.RedisError:
        return None
    return (statistics.median(took_s), max(took_s)) if took_s else None


def check_waits_for(job: Job, check_id: str) -> str:
    """What a trial run of a job waits for, such as `another check of wine`; empty where its node is at it."""
    try:
        asked, begun = _all_asked(), client().hgetall(BEGUN_KEY)
    except redis.RedisError:
        return ""
    mine, now_s = asked.get(check_id), time.time()
    if mine is None or check_id in begun:
        return ""
    at_it = {one: float(since_s) for one, since_s in begun.items() if one in asked and asked[one].node == mine.node}
    ahead = [one for one, since_s in at_it.items() if now_s - since_s < KEEP_S]
    if not ahead:
        return ""
    first = min(ahead, key=lambda one: at_it[one]).partition("-")[0]
    name = Job.objects.filter(pk=first, project=job.project_id).values_list("name", flat=True).first()
    return f"another check of {name}" if name else "a check of another project"


def _all_asked() -> dict[str, Asked]:
    try:
        return {str(one): Asked(**json.loads(told)) for one, told in client().hgetall(ASKED_KEY).items()}
    except redis.RedisError:
        return {}

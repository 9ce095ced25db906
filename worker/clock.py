"""How far a machine's clock is off the broker's: what every machine can ask, and two can compare."""

from __future__ import annotations

import time

import redis

ROUND_TRIP_MAX_S = 1.0
"""An answer that took longer, or a process that stood still meanwhile, says too little."""


def clock_ahead_s(client: redis.Redis) -> float | None:
    """Seconds that this machine's clock is ahead of that of the broker behind a Redis client; None: it cannot be told.

    Raises `redis.RedisError`.
    """
    began_s = time.monotonic()
    wall_s = time.time()
    seconds, micros = client.time()
    took_s = time.monotonic() - began_s
    if took_s > ROUND_TRIP_MAX_S:
        return None
    return wall_s + took_s / 2 - (int(seconds) + int(micros) / 1e6)

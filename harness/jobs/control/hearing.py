"""Since when control has heard its nodes without a gap: who could not be heard cannot be called lost.

A broker that was away, a locked database or a control process that was down leave the same traces as a dead node: old
heartbeats, leases that have run out. The mark lives in the broker, so that it goes with its memory, and is renewed by
every reconciliation that has looked at every attempt, whichever process made it.
"""

from __future__ import annotations

import redis

from harness.broker import client
from harness.jobs.control.clock import SETTLE_S

HEARING_KEY = "dlh:hearing"
GAP_S = 20
"""Reconciliations that lie farther apart (seconds) leave a gap; they are made every five seconds."""
_RENEW = """
local now = redis.call('TIME')[1]
local since = redis.call('GET', KEYS[1]) or now
if tonumber(since) > tonumber(now) then since = now end
redis.call('SET', KEYS[1], since, 'EX', ARGV[1])
"""


def hearing_settled() -> bool:
    """Whether all who live have had time to speak since the last gap."""
    try:
        since_s = client().get(HEARING_KEY)
        now_s = client().time()[0]
    except redis.RedisError:
        return False
    return since_s is not None and now_s - int(since_s) >= SETTLE_S


def hearing_renew() -> None:
    """Call when a reconciliation has looked at every attempt. Raises `redis.RedisError`."""
    client().eval(_RENEW, 1, HEARING_KEY, str(GAP_S))


def hearing_forget() -> None:
    """Call when a reconciliation stood still on its way. Raises `redis.RedisError`."""
    client().delete(HEARING_KEY)

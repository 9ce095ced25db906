"""How the nodes of one attempt find each other before their ranks start: by a hash at the broker. So do two nodes that
time the link between them through such a network as ranks have.

Each supervisor enters its node; the first node's entry is the port of its rendezvous, which it chose itself. When all
are there, `port` tells it. The hash's name carries the fencing token, so an older attempt can mislead nobody. A broker
that lost its memory is told again: an entry that is gone is made anew until all nodes have been seen. Some may fetch
data for long; meanwhile the others look less and less often, and only count. Where their network is encrypted, an entry
has the node's public key as well; the first node enters last, when it has let the others in, so that it answers those
who see its entry.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

import redis

from worker.sandbox import SandboxError

MEETINGS = "dlh:meet:"
"""So begin the keys."""
LOOK_S, LOOK_MOST_S = 0.1, 1.0
LOOK_SHARE = 0.1
"""Looks are so much of the wait up to now apart, within these limits: a thousand nodes may wait for the last one."""
KEEP_S = 600
RENEW_S = 60.0
"""An entry that is there is renewed as often."""
LetIn = Callable[[Mapping[str, str]], None]
"""Takes each other node's public key."""
READY = 0
"""Entry of a node that has no port to tell."""
_log = logging.getLogger(__name__)


def meeting_key(job_id: str, token: int) -> str:
    """Redis key of the hash node -> port, and a public key after a space where there is one."""
    return f"{MEETINGS}{job_id}:{token}"


def link_meeting_key(request_id: str) -> str:
    """The same of two nodes that time the link between them."""
    return f"{MEETINGS}link:{request_id}"


class Meeting:
    """One node's part: a thread that enters it and looks for the others."""

    def __init__(
        self, url: str, place: str, nodes: Sequence[str], node: str, key: str = "", let_in: LetIn | None = None
    ) -> None:
        """`place`: name of the hash. `nodes`: all that meet there, of which `node` is this one; the first one's port is
        told. `key`: the node's public key. `let_in`: called by the thread once those of the others are known."""
        self.port: int | None = None
        """Of the first node's rendezvous, once all nodes are there."""
        self.problem: SandboxError | None = None
        """Why the others could not be let in."""
        self._key_entry, self._let_in = f" {key}" if key else "", let_in
        self._url, self._key, self._nodes, self._node = url, place, nodes, node
        self._own: int | None = None if node == nodes[0] else READY
        self._began_s = time.monotonic()
        self._renewed_s = -math.inf
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meeting", daemon=True)

    def start(self) -> None:
        """Enter and look."""
        self._thread.start()

    def tell(self, port: int) -> None:
        """The rendezvous of this, the first, node is open at `port`."""
        self._own = port

    def close(self) -> None:
        """Look no more."""
        self._ended.set()

    def wait(self, end_s: float) -> int:
        """Enter and look in this thread, instead of `start`, until then (monotonic); the first node's port.

        Raises `TimeoutError`, `SandboxError` as `problem`.
        """
        with closing(self._client()) as client:
            while self._seeks():
                if time.monotonic() >= end_s:
                    raise TimeoutError("the other node did not come to the meeting")
                self._try(client)
                if self._seeks():
                    time.sleep(self._pause_s())
        if self.problem is not None:
            raise self.problem
        return self.port or READY

    def _run(self) -> None:
        with closing(self._client()) as client:
            while self._seeks() and not self._ended.wait(self._pause_s()):
                self._try(client)

    def _client(self) -> redis.Redis:
        return redis.Redis.from_url(self._url, socket_timeout=5.0, socket_connect_timeout=2.0, decode_responses=True)

    def _pause_s(self) -> float:
        return min(LOOK_MOST_S, max(LOOK_S, LOOK_SHARE * (time.monotonic() - self._began_s)))

    def _seeks(self) -> bool:
        return self.port is None and self.problem is None

    def _try(self, client: redis.Redis) -> None:
        try:
            self.port = self._look(client)
        except SandboxError as error:
            self.problem = error
        except redis.RedisError as error:
            _log.warning("cannot look for the other nodes: %s", error)

    def _look(self, client: redis.Redis) -> int | None:
        if self._own is None:
            return None
        is_first = self._node == self._nodes[0]
        if not is_first and not self._is_entered(client):
            self._enter(client, self._own)
        if client.hlen(self._key) < len(self._nodes) - is_first:
            return None
        others = {str(node): str(entry) for node, entry in client.hgetall(self._key).items() if node != self._node}
        if not others.keys() >= set(self._nodes) - {self._node}:
            return None
        if self._let_in is not None:
            self._let_in({node: entry.partition(" ")[2] for node, entry in others.items()})
        if is_first:
            self._enter(client, self._own)
            return self._own
        return int(others[self._nodes[0]].partition(" ")[0])

    def _is_entered(self, client: redis.Redis) -> bool:
        return time.monotonic() - self._renewed_s < RENEW_S and bool(client.hexists(self._key, self._node))

    def _enter(self, client: redis.Redis, port: int) -> None:
        client.hset(self._key, self._node, f"{port}{self._key_entry}")
        client.expire(self._key, KEEP_S)
        self._renewed_s = time.monotonic()

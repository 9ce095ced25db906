"""Ranks wait for each other before Horovod does: Gloo gives up after half a minute, and aborts the process.

On one rank the data may take minutes longer to read than on another: a slower disk, a cold cache. They meet at the
rendezvous that Horovod is about to use, which keeps what it is given under a name.
"""

from __future__ import annotations

import http.client
import os
import time

from worker.runtime.pulse import pulse

SCOPE = "/dlh-arrival/"
ALL = "all"
FIRST_LOOK_S, LAST_LOOK_S = 0.02, 0.5
"""Between looks: the first, and the longest."""
ANSWER_S = 30.0
SILENT_S = 60.0
"""A rendezvous that does not answer for so long is gone; a single connection may fail on a busy host."""
ALIVE_S = 3600.0
"""So long a rank that waits for those on other nodes says that it lives."""


def all_arrived() -> None:
    """Until every rank has come here; whoever started them ends those that wait for one that never comes.

    Raises `ConnectionError` where the rendezvous does not answer for `SILENT_S`.
    """
    port, size = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_PORT"), int(os.environ.get("HOROVOD_SIZE", "1"))
    if not port or size < 2:
        return  # started by something else, which has its own way to meet
    store, rank = _Store(os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(port)), os.environ["HOROVOD_RANK"]
    waiting = Waiting(one_node=os.environ.get("HOROVOD_LOCAL_SIZE") == str(size))
    store.put(rank)
    if rank == "0":
        for other in range(1, size):
            store.wait(str(other), waiting)
        store.put(ALL)
    store.wait(ALL, waiting)


class Waiting:
    """A rank that waits for those of other nodes says that it lives, since the watchdog of its node hears no others.

    On one node the watchdog hears them all, and must notice one that stands still: there a rank that waits is silent.
    """

    def __init__(self, *, one_node: bool) -> None:
        self._silent_from_s = time.monotonic() + (0.0 if one_node else ALIVE_S)

    def look(self) -> None:
        """It still waits."""
        if time.monotonic() < self._silent_from_s:
            pulse.beat(waits=True)


class _Store:
    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port

    def put(self, name: str) -> None:
        self._ask("PUT", name)

    def wait(self, name: str, waiting: Waiting) -> None:
        look_s = FIRST_LOOK_S
        while self._ask("GET", name) != http.client.OK:
            waiting.look()
            time.sleep(look_s)
            look_s = min(LAST_LOOK_S, 1.5 * look_s)

    def _ask(self, method: str, name: str) -> int:
        look_s, silent_from_s = FIRST_LOOK_S, time.monotonic()
        while True:
            try:
                return self._ask_once(method, name)
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() - silent_from_s >= SILENT_S:
                    raise ConnectionError(f"the rendezvous does not answer: {error}") from error
            time.sleep(look_s)
            look_s = min(LAST_LOOK_S, 1.5 * look_s)

    def _ask_once(self, method: str, name: str) -> int:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=ANSWER_S)
        try:
            connection.request(method, SCOPE + name, body=b"here" if method == "PUT" else None)
            return connection.getresponse().status
        finally:
            connection.close()

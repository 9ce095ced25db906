"""Who waits for an answer of the portal or the object store is woken once nobody wants it any more.

Some answers take minutes, and a thread that waits in the kernel looks at nothing else meanwhile.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection

LOOK_S = 0.5


@contextmanager
def heeding(stopped: Callable[[], bool], connections: Callable[[], Iterable[HTTPConnection]]) -> Iterator[None]:
    """While in it, whatever waits on one of these connections gets an `OSError` or an early end soon after `stopped`
    says so. It is asked from a thread of its own; `connections` are those that there are at that moment."""
    left = threading.Event()

    def watch() -> None:
        while not left.wait(LOOK_S):
            if stopped():
                for connection in connections():
                    _wake(connection)

    watcher = threading.Thread(target=watch, name="heed", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        left.set()
        watcher.join()


def _wake(connection: HTTPConnection) -> None:
    """End what is read there; its own thread closes it."""
    if (sock := connection.sock) is not None:
        with suppress(OSError):
            # not that of `SSLSocket`, which would take the encryption away under the reader
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

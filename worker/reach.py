"""Whether other machines answer: asked by a run's node process once the ranks here stand still, by the doctor, and by
the portal for a node that wants to know whether others get to it."""

from __future__ import annotations

import contextlib
import errno
import hmac
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

REACH_S = 5.0
"""So long a host may take to answer: two lost tries of TCP."""
AT_ONCE = 16
RANK_PORTS = range(32768, 61000)
"""Ports that ranks listen on, as Linux chooses them where nobody told it others."""
_AWAY = frozenset({errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN})


def all_answer(hosts: Sequence[str], port: int, limit_s: float = REACH_S) -> bool | None:
    """Whether all of these answer a connection to the port, if only by refusing it; None: that cannot be told here."""
    with ThreadPoolExecutor(min(AT_ONCE, max(1, len(hosts)))) as pool:
        told = [*pool.map(lambda host: answers(host, port, limit_s), hosts)]
    if False in told:
        return False
    return True if told and None not in told else None


def answers(host: str, port: int, limit_s: float) -> bool | None:
    """Whether anything, be it a refusal, comes back from the port; None: that cannot be told here."""
    try:
        socket.create_connection((host, port), timeout=limit_s).close()
    except ConnectionRefusedError:
        return True
    except TimeoutError:
        return False
    except OSError as error:  # one that the sandbox forbids, say
        return False if error.errno in _AWAY else None
    return True


def says(host: str, port: int, word: str, limit_s: float) -> bool:
    """Whether who listens at the port says this word, unasked: it is sent nothing, and nothing else of it is told."""
    wanted, said, end_s = word.encode(), b"", time.monotonic() + limit_s
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=limit_s) as connection:
        while len(said) < len(wanted) and (left_s := end_s - time.monotonic()) > 0:
            connection.settimeout(left_s)
            block = connection.recv(len(wanted) - len(said))
            if not block:
                break
            said += block
    return hmac.compare_digest(said, wanted)

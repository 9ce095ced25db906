"""Whether the other nodes of a run answer: asked by its node process once the ranks here stand still."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

REACH_S = 5.0
"""So long a host may take to answer: two lost tries of TCP."""
AT_ONCE = 16
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

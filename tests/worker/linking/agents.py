"""Two agents' parts in timing a link, in threads of this process, on two loopback addresses."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Any

from worker.linking import part

LISTENS, CONNECTS = "127.0.0.2", "127.0.0.3"
Told = list[dict[str, Any]]


def order(role: str, **changes: Any) -> dict[str, Any]:
    """As control sends it."""
    own, peer = (LISTENS, CONNECTS) if role == "listen" else (CONNECTS, LISTENS)
    return {"request_id": "r1", "role": role, "own": own, "peer": peer, "network": 0, "token": "ab" * 32, **changes}


def listening(on_port: Callable[[int], object], **changes: Any) -> Told:
    """What a node tells that listens, while `on_port` does something with its port."""
    told: Told = []
    others: list[threading.Thread] = []

    def send(answer: dict[str, Any]) -> None:
        told.append(answer)
        if "port" in answer:
            others.append(threading.Thread(target=on_port, args=(answer["port"],)))
            others[0].start()

    part.link_time(order("listen", **changes), send)
    for thread in others:
        thread.join()
    return told


def timed(**changes: Any) -> tuple[Told, Told]:
    """What the two nodes tell; `changes` are to the order of the one that connects."""
    second: Told = []
    first = listening(lambda port: part.link_time(order("connect", port=port, **changes), second.append))
    return first, second


def other_token() -> str:
    """One that control did not send."""
    return secrets.token_hex(32)

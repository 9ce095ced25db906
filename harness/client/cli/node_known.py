"""Whether the portal still knows the node that a home joined as: one that was removed would call in vain forever."""

from __future__ import annotations

from pathlib import Path

from harness.client.client import Json
from harness.client.errors import ApiError, BadInput, ClientError
from harness.client.transport import Transport

ANSWER_S = 5.0
"""For so long an answer is waited for, at each try: a portal that hangs is no reason to keep an agent from its runs."""
NOBODY = "unauthenticated"
"""Code of the portal's own answer to a login that it does not know."""


def is_known(node: Json, *, unanswered: bool = True) -> bool:
    """Whether the portal takes the node's login; `unanswered` where it does not answer: an agent waits for it. `node`:
    what it was given when it joined."""
    url, secret = node.get("url"), node.get("secret")
    if not url or not secret:
        return unanswered
    transport = Transport(str(url), str(secret), timeout_s=ANSWER_S)
    try:
        transport.json("GET", "/node")
    except ApiError as error:
        return unanswered and error.code != NOBODY  # a proxy's own 401 tells nothing of the node
    except ClientError:
        return unanswered
    finally:
        transport.close()
    return True


def known_check(node: Json) -> None:
    """Pass where the portal takes it. Raises `BadInput`."""
    if is_known(node):
        return
    raise BadInput(
        f"The portal at {node['url']} does not know the login of {node['node']} any more: the node was removed from "
        "the pool, or another machine has joined as it since.",
        hint=f"An admin makes a token with dlh pool add {node['node']}; join with it again: dlh node join URL TOKEN.",
    )


def left_check(node: Json, home: Path, url: str) -> None:
    """Pass where the home, whose node is to join the portal at `url`, is no node's any more. Raises `BadInput`.

    An installation that was moved to another address has left the old one, where nobody answers; what the home holds
    of its runs is for the new one.
    """
    if is_known(node, unanswered=node.get("url") == url):
        raise BadInput(
            f"{home} has already joined, as {node.get('node')}.",
            hint="Run it with dlh node start, or give another --home.",
        )

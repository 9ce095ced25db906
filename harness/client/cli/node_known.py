"""Whether the portal still knows the node that a home joined as: one that was removed would call in vain forever."""

from __future__ import annotations

from pathlib import Path

import httpx

from harness.client.cli.output import notes
from harness.client.client import Json
from harness.client.errors import ApiError, BadInput, ClientError
from harness.client.transport import API, Transport

ANSWER_S = 5.0
"""For so long an answer is waited for, at each try: a portal that hangs is no reason to keep an agent from its runs,
nor a machine that is off to keep somebody who joins another."""
NOBODY = "unauthenticated"
"""Code of the portal's own answer to a login that it does not know."""


def is_known(node: Json) -> bool:
    """Whether the portal takes the node's login, or does not answer: an agent waits for it. `node`: what it was given
    when it joined."""
    url, secret = node.get("url"), node.get("secret")
    if not url or not secret:
        return True
    transport = Transport(str(url), str(secret), timeout_s=ANSWER_S)
    try:
        transport.json("GET", "/node")
    except ApiError as error:
        return error.code != NOBODY  # a proxy's own 401 tells nothing of the node
    except ClientError:
        return True
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


def left_check(node: Json, home: Path, url: str) -> str:
    """Pass where the home, whose node is to join the portal at `url`, is no node's any more: its portal says so, or
    nobody answers where it was, which is returned then. Raises `BadInput`.

    An installation that was moved to another address has left the old one, where nobody answers; what the home holds
    of its runs is for the new one. Whatever answers there lives: a portal that is asked too often or starts anew, a
    proxy before it. A home that names no portal to ask, or holds no secret, is a node's: `dlh node start` runs it.
    """
    joined, said = f"{home} has already joined, as {node.get('node')}", ""
    old, secret = str(node.get("url") or ""), str(node.get("secret") or "")
    if old and secret:
        notes().print(f"Asking the portal at {old} whether it still knows this node…", markup=False, soft_wrap=True)
        transport = Transport(old, secret)
        try:
            transport.checked(transport.http.get(f"{API}/node", timeout=ANSWER_S))
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if old != url:
                return old
            said = str(error)
        except (httpx.HTTPError, ClientError) as error:
            if isinstance(error, ApiError) and error.code == NOBODY:
                return ""
            said = str(error) or type(error).__name__
        finally:
            transport.close()
    if said:
        raise BadInput(
            f"{joined}, and its portal at {old} does not say whether it still knows it: {said.rstrip('.')}.",
            hint=f"Try again later, or give another --home. If that portal is gone for good, remove {home}/node.json.",
        )
    raise BadInput(f"{joined}.", hint="Run it with dlh node start, or give another --home.")

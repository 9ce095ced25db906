"""A node that does not see the store, started without a person: what it is given, and whether the portal wants it."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

from harness.env import env_text
from harness.pool.terms import CLOCK_LIMIT_S, broker_user
from harness.release import release
from worker.transfer.portal import Portal, PortalAway, PortalMoved, PortalRefused

NEEDS = ("DLH_REDIS_URL", "DLH_CACHE", "DLH_URL", "DLH_NODE_SECRET")
_TIMEOUT_S = 10.0


def is_far() -> bool:
    """Whether this process's node has a cache of its own (`DLH_CACHE`)."""
    return bool(env_text("DLH_CACHE"))


def login(name: str, secret: str) -> tuple[str, str]:
    """User and password at the broker: the node's own, or the shared password where one is given."""
    shared = env_text("DLH_REDIS_PASSWORD")
    return ("", shared) if shared else (broker_user(name), secret)


def refusal(url: str, secret: str, name: str) -> str:
    """Why it would be of no use to start; empty where nothing speaks against it, or the portal is away for now."""
    if not urlsplit(url).hostname or urlsplit(url).scheme not in {"http", "https"}:
        return f"DLH_URL is the portal's address, not {url!r}"
    asked_s = time.time()
    try:
        told = Portal(url, secret, timeout_s=_TIMEOUT_S).json("GET", "")
    except PortalMoved as moved:
        return f"DLH_URL is {url}, where {moved}: give the address at which the portal itself answers"
    except PortalAway:
        return ""
    except PortalRefused as error:
        words = f"the portal at {url} does not take this node: {error}"
        step = "; is its secret among those that `prepare` was given (DLH_NODE_SECRETS)?"
        return words + (step if error.status in {401, 403} else "; is the address right, and in DLH_ALLOWED_HOSTS?")
    if told["name"] != name:
        return f"this secret is that of node {told['name']}, not of {name} (DLH_NODE_NAME)"
    if told["version"] != release():
        return f"this image has release {release()}, the portal {told['version']}: use the portal's"
    ahead_s = asked_s - float(told["time_s"])
    if ahead_s > CLOCK_LIMIT_S or ahead_s < -(CLOCK_LIMIT_S + time.time() - asked_s):
        where = "ahead of" if ahead_s > 0 else "behind"
        return f"the clock of this machine is {abs(ahead_s):.0f} s {where} the portal's"
    return ""

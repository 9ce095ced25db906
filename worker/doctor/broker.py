"""The broker as this machine sees it: reach, login, release."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import redis

from worker.doctor.findings import Finding, bad, ok, skip, warn

TIMEOUT_S = 10.0
REDIS_FIXED = {(6, 2): 20, (7, 2): 11, (7, 4): 6, (8, 0): 4, (8, 2): 2}
"""CVE-2025-49844 (a use after free in Lua): first fixed patch of each release line of Redis; newer lines have it."""
VALKEY_FIXED = {(7, 2): 11, (8, 0): 6, (8, 1): 4}
LINES_NEWEST = {"Redis": (8, 2), "Valkey": (8, 1)}
_CVE = "CVE-2025-49844: whoever can sign in to the broker can run code in it."


def broker(url: str) -> Iterator[Finding]:
    """Whether it answers, and whether its release has the known hole."""
    if not url:
        yield skip("broker", "no address known: join first")
        return
    place = urlsplit(url)
    where = f"{place.hostname}:{place.port}"
    try:
        with redis.Redis.from_url(url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S) as client:
            began_s = time.perf_counter()
            client.ping()
            took_s = time.perf_counter() - began_s
            told: dict[str, Any] = client.info("server")
    except (redis.AuthenticationError, redis.exceptions.NoPermissionError) as error:
        step = (
            "If control runs, it makes logins again within seconds after the broker was restarted. If this stays, a"
            " node that joined joins again (an admin: dlh pool add NODE); else check the broker's password."
        )
        yield bad("broker", f"{where} refuses our login: {error}", "No job reaches this node.", step)
        return
    except redis.RedisError as error:
        step = "Check the address and firewalls; the portal's stack needs DLH_BROKER_HOST for other machines."
        yield bad("broker", f"{where} does not answer: {error}", "No job reaches this node.", step)
        return
    yield ok("broker", f"{where} answers in {took_s * 1000:.1f} ms")
    kind = "Valkey" if told.get("valkey_version") else "Redis"
    yield broker_release(kind, str(told.get("valkey_version") or told.get("redis_version") or ""))


def broker_release(kind: str, version: str) -> Finding:
    """Judge a release of Redis or Valkey."""
    name = f"{kind} release"
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if match is None:
        return skip(name, version or "not told")
    major, minor, patch = (int(part) for part in match.groups())
    fixed = (REDIS_FIXED if kind == "Redis" else VALKEY_FIXED).get((major, minor))
    if (major, minor) > LINES_NEWEST[kind] or (fixed is not None and patch >= fixed):
        return ok(name, version)
    step = "Update it. Debian 12's 7.0.15 has the fix from package 5:7.0.15-1~deb12u6 on (dpkg -l redis-server)."
    return warn(name, version, _CVE, step)

"""Look at everything and print it as JSON: `{"findings": [...], "ok": bool}`. Exit 1 where something is wrong.

Reads `DLH_HOME`, `DLH_STORE`, `DLH_CACHE`, `DLH_URL`, `DLH_NODE_SECRET`, `DLH_REDIS_URL` and `DLH_NODE_ADDRESS`, which
`dlh doctor` sets.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from worker import sandbox
from worker.address import own_address
from worker.doctor.findings import Finding, State
from worker.doctor.inbound import inbound
from worker.doctor.machine import cache_contents, disk, machine
from worker.doctor.network import network
from worker.doctor.portal import broker, portal
from worker.home import cache_dir, home, redis_url
from worker.transfer.cache import Cache

TEXT_MAX = 600
"""Of one part of a line: what the portal takes."""


def findings() -> list[Finding]:
    """All lines, in the order in which they are shown."""
    url, secret = os.environ.get("DLH_URL", ""), os.environ.get("DLH_NODE_SECRET", "")
    store = os.environ.get("DLH_STORE", "")
    url = url.rstrip("/")
    told = portal(url, secret)
    found = [*told.findings, *broker(redis_url()), *network(told.peers)]
    found.append(inbound(own_address(), url, secret, able=not sandbox.network_problem()))
    home().mkdir(parents=True, exist_ok=True)
    return [*found, *machine(home(), Path(store) if store else None), *_cache()]


def _cache() -> Iterator[Finding]:
    """The disk of a cache of the node's own."""
    if (folder := cache_dir()) is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield from disk("disk of the cache", folder)
        yield cache_contents(Cache(folder, 0), time.time())


def main() -> int:
    """Print the report."""
    found = findings()
    good = all(finding.state is not State.BAD for finding in found)
    lines = [{name: str(text)[:TEXT_MAX] for name, text in asdict(finding).items()} for finding in found]
    sys.stdout.write(json.dumps({"ok": good, "findings": lines}) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

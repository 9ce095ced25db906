"""Look at everything and print it as JSON: `{"findings": [...], "ok": bool}`. Exit 1 where something is wrong.

Reads `DLH_HOME`, `DLH_STORE`, `DLH_CACHE`, `DLH_URL`, `DLH_NODE_SECRET`, `DLH_REDIS_URL` and `DLH_NODE_ADDRESS`, which
`dlh doctor` sets.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from worker import sandbox
from worker.address import own_address
from worker.doctor.broker import broker
from worker.doctor.findings import Finding, State, bad
from worker.doctor.inbound import NAME as INBOUND
from worker.doctor.inbound import inbound
from worker.doctor.machine import MACHINE, cache_contents, disk
from worker.doctor.network import network
from worker.doctor.portal import portal
from worker.home import cache_dir, home, redis_url
from worker.transfer.cache import Cache

TEXT_MAX = 600
"""Of one part of a line: what the portal takes."""


def findings() -> list[Finding]:
    """All lines, in the order in which they are shown."""
    url, secret = os.environ.get("DLH_URL", "").rstrip("/"), os.environ.get("DLH_NODE_SECRET", "")
    peers: list[dict[str, Any]] = []

    def asked() -> Iterator[Finding]:
        told = portal(url, secret)
        peers.extend(told.peers)
        yield from told.findings

    def reached() -> Iterator[Finding]:
        yield inbound(own_address(), url, secret, able=not sandbox.network_problem())

    looks: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("portal", asked),
        ("broker", lambda: broker(redis_url())),
        ("network", lambda: network(peers)),
        (INBOUND, reached),
        *MACHINE,
        ("disks", _disks),
    )
    return [line for name, look in looks for line in looked(name, look)]


def looked(name: str, look: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """What is found; the last line tells where the look broke off: whatever it is, all else is looked at."""
    try:
        yield from look()
    except Exception as error:
        text = f"cannot be looked at: {str(error) or type(error).__name__}"
        step = "Correct the setting, folder or address that it names. All of it: python -m worker.doctor"
        yield bad(name, text, "Whatever this comes from may keep jobs from running here, too.", step)


def _disks() -> Iterator[Finding]:
    """Of the home, of the store, and of a cache of the node's own."""
    yield from disk("disk of the home", home(), make=True)
    if store := os.environ.get("DLH_STORE", ""):
        yield from disk("disk of the store", Path(store))
    if (folder := cache_dir()) is not None:
        yield from disk("disk of the cache", folder, make=True)
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

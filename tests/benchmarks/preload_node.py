"""What one node does in `bench_preload`: fetch a dataset into its cache, or the same bytes as bare as can be.

    python -m tests.benchmarks.preload_node preload URL SECRET FOLDER CACHE GO
    python -m tests.benchmarks.preload_node raw HOST PORT BYTES GO

Waits for the file GO, then works, and prints `{"began_s", "ended_s", "fetched_bytes", "cached_bytes"}`.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path


def raw(host: str, port: str, size_bytes: str) -> tuple[int, int]:
    """Read so many bytes from a bare TCP server."""
    got, block = 0, bytearray(1 << 20)
    with socket.create_connection((host, int(port))) as line:
        line.sendall(size_bytes.encode() + b"\n")
        while count := line.recv_into(block):
            got += count
    return got, 0


def preload(url: str, secret: str, folder: str, cache: str) -> tuple[int, int]:
    """As the supervisor does before a run."""
    from worker.transfer.brought import Brought
    from worker.transfer.cache import Cache
    from worker.transfer.depot import Depot
    from worker.transfer.portal import Portal

    brought = Brought()
    Depot(Cache(Path(cache), 1 << 40), Portal(url, secret)).content(folder, brought, lambda: False)
    brought.release()
    return brought.fetched_bytes, brought.cached_bytes


def main() -> None:
    """Command line."""
    from worker.transfer import depot  # noqa: F401 - imported before the clock runs

    kind, *arguments, go = sys.argv[1:]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while not Path(go).exists():
        time.sleep(0.005)
    began_s = time.time()
    fetched_bytes, cached_bytes = {"raw": raw, "preload": preload}[kind](*arguments)  # type: ignore[operator]
    told = {"began_s": began_s, "ended_s": time.time(), "fetched_bytes": fetched_bytes, "cached_bytes": cached_bytes}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()

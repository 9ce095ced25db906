"""A control process that only reads events: `python -m tests.harness.jobs.reader_process DATABASE LEASE_S [WHERE]`.

Says `ready`, waits for a line, and reads until its input ends; then it prints as JSON which stream it read when. With
WHERE it says `stands` in its second batch, `before`, `within` or `after` what that changes in the database, and goes on
when it is sent another line.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import django
from django.conf import settings

LASTS_S = 0.05
BATCH = 10


def main() -> None:
    """Read, slowly: two processes that read one stream at once would overlap."""
    settings.DATABASES["default"]["NAME"] = sys.argv[1]
    django.setup()
    from harness.database import DATABASE_AWAY
    from harness.jobs.control import effects, ingest, streams

    streams.LEASE_S = float(sys.argv[2])
    streams.RENEW_EVERY_S = streams.LEASE_S / 4
    ingest.BATCH = BATCH
    spans: list[tuple[str, float, float]] = []
    real = ingest._take_in

    def take_in(stream: str, entries: Any) -> None:
        began_s = time.monotonic()
        time.sleep(LASTS_S)
        real(stream, entries)
        spans.append((stream, began_s, time.monotonic()))

    ingest._take_in = take_in
    if len(sys.argv) > 3:
        _stand({"before": ingest, "within": effects, "after": ingest}[sys.argv[3]], sys.argv[3])
    print("ready", flush=True)
    sys.stdin.readline()
    ended = threading.Event()
    threading.Thread(target=_wait, args=[ended], daemon=True).start()
    while not ended.is_set():
        try:
            ingest.ingest()
        except DATABASE_AWAY:
            continue
        time.sleep(0.01)
    print(json.dumps(spans), flush=True)


def _wait(ended: threading.Event) -> None:
    for _ in sys.stdin:
        _LINES.set()
    ended.set()


_LINES = threading.Event()


def _stand(module: Any, where: str) -> None:
    """Have the process stop for a line, once."""
    name = {"before": "events_apply", "within": "points_write", "after": "events_apply"}[where]
    real, calls = getattr(module, name), []

    def standing(*args: Any, **more: Any) -> Any:
        calls.append(1)
        if where == "after":
            found = real(*args, **more)
        if len(calls) == 2:
            print("stands", flush=True)
            _LINES.wait()
        return found if where == "after" else real(*args, **more)

    setattr(module, name, standing)


if __name__ == "__main__":
    main()

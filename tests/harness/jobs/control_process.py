"""A control process that only schedules: `python -m tests.harness.jobs.control_process DECISIONS DATABASE [WHERE]`.

Says `ready`, waits for a line, ticks until it has decided so often, and prints as JSON how many jobs it started and
when it was deciding. Every decision is stretched, so that two processes that do not wait for each other would overlap.
With WHERE it says `stands` and goes on no more: while it is `deciding`, or `carrying out`, with the first job claimed.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import django
from django.conf import settings

LASTS_S = 0.1
LIMIT_S = 200.0


def main() -> None:
    """Decide as often as told: a tick while the other one decides comes to nothing."""
    settings.DATABASES["default"]["NAME"] = sys.argv[2]
    django.setup()
    from harness.jobs.control import tick as tick_module

    real, decided = tick_module.decide, []

    def stretched(*args: Any, **more: Any) -> Any:
        began_s = time.monotonic()
        time.sleep(LASTS_S)
        found = real(*args, **more)
        decided.append((began_s, time.monotonic()))
        return found

    tick_module.decide = stretched
    if len(sys.argv) > 3:
        _stand(tick_module, {"deciding": "decide", "carrying out": "_claim"}[sys.argv[3]])
    print("ready", flush=True)
    sys.stdin.readline()
    started, end_s = 0, time.monotonic() + LIMIT_S
    while len(decided) < int(sys.argv[1]) and time.monotonic() < end_s:
        started += tick_module.tick()
        time.sleep(0.01)
    print(json.dumps({"started": started, "decided": decided}), flush=True)


def _stand(module: Any, name: str) -> None:
    real = getattr(module, name)

    def standing(*args: Any, **more: Any) -> Any:
        real(*args, **more)
        print("stands", flush=True)
        threading.Event().wait()

    setattr(module, name, standing)


if __name__ == "__main__":
    main()

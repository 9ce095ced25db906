"""`python -m worker.facts`: what this machine says of itself when it joins, as one line of JSON."""

from __future__ import annotations

import json
import sys
import time
from functools import cache
from importlib import metadata
from typing import Any

from worker import address, devices, sandbox
from worker.plan import PLAN_VERSION

PACKAGE = "deep-learning-harness"


@cache
def release() -> str:
    """Of the platform on this machine as this process has it; `0` from sources that were never installed."""
    try:
        return metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        return "0"


def facts() -> dict[str, Any]:
    """Release, clock, devices, links, sandbox level."""
    host = sandbox.host()
    return {
        "version": release(),
        "plan_version": PLAN_VERSION,
        "devices": devices.devices(),
        "links": address.links(),
        "sandbox_level": int(host.level),
        "sandbox_reason": host.reason,
        "time_s": time.time(),
    }


def main() -> int:
    """Print the facts."""
    sys.stdout.write(json.dumps(facts()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

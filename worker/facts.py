"""`python -m worker.facts`: what this machine says of itself when it joins, as one line of JSON."""

from __future__ import annotations

import json
import sys
import time
from importlib import metadata
from typing import Any

from worker import address, devices, sandbox
from worker.plan import PLAN_VERSION

PACKAGE = "deep-learning-harness"


def facts() -> dict[str, Any]:
    """Release, clock, devices, links, sandbox level."""
    try:
        version = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        version = "0"
    host = sandbox.host()
    return {
        "version": version,
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

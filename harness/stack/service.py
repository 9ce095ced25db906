"""The whole stack as a service of systemd: its unit file, with the settings that it is printed with."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from urllib.parse import urlsplit

from harness.env import REPOSITORY
from harness.stack.home import StackError, StackHome
from harness.stack.leftovers import STOP_TIMEOUT_S
from harness.systemd import install_words, unit_text
from worker.home import stop_save_s

UNIT = "dlh"
"""Name of the service."""
_SECRET = re.compile(r"KEY|PASSWORD|SECRET|TOKEN")
_PASSED = re.compile(r"DLH_[A-Z0-9_]+|REDIS_URL(_FILE)?|XDG_CACHE_HOME")
_CLIENT = frozenset({"DLH_URL", "DLH_TOKEN", "DLH_PROJECT"})
"""Of whoever prints it, not of the stack."""


def service(home: StackHome) -> int:
    """Print it; how to install it is said beside it. Raises `StackError`."""
    try:
        given = {**settings_of(os.environ), "DLH_HOME": str(home.root)}
        text = unit_text(
            "Deep learning harness",
            [sys.executable, "-m", "harness.stack", "run"],
            service={
                "WorkingDirectory": str(REPOSITORY).replace("%", "%%"),
                "Restart": "on-failure",
                "RestartSec": "5",
                "KillMode": "mixed",
                "TimeoutStopSec": f"{stop_save_s() + STOP_TIMEOUT_S:.0f}",
                "LimitNOFILE": "65536",
            },
            environment=given,
        )
    except ValueError as error:
        raise StackError(f"{error}: look at the DLH_ settings") from error
    sys.stdout.write(text)
    sys.stderr.write(f"\nTo install it, with the same settings before make:  {install_words('make service', UNIT)}\n")
    return 0


def settings_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Those that go into a file that everybody can read. Raises `StackError` for a secret, which has no place in it."""
    found = {name: value for name, value in environment.items() if _PASSED.fullmatch(name) and name not in _CLIENT}
    for name, value in found.items():
        if (_SECRET.search(name) and not name.endswith("_FILE")) or ("://" in value and urlsplit(value).password):
            raise StackError(
                f"{name} holds a secret, and everybody can read a unit file: put it into a file that only this user "
                f"can read, and set {name}_FILE to that file's path instead"
            )
    return found

"""The agent of a machine that joined as a service of systemd."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from harness.systemd import install_words, unit_text

UNIT = "dlh-node"
"""Name of the service."""


def node_unit(home: Path, name: str) -> str:
    """Its unit file. Runs outlive an agent that is stopped, and the next one finds them."""
    return unit_text(
        f"Node {name} of a deep learning harness",
        [_dlh(), "node", "start", "--home", str(home)],
        service={"Restart": "always", "RestartSec": "5", "KillMode": "process"},
    )


def service_words(home: Path) -> str:
    """How to make it a service."""
    return install_words(shlex.join([_dlh(), "node", "service", "--home", str(home)]), UNIT)


def _dlh() -> str:
    own = Path(sys.argv[0])
    return str(own.resolve() if own.name == "dlh" else Path(sys.executable).with_name("dlh"))

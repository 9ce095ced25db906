"""The agent of a machine that joined as a service of systemd."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from harness.systemd import install_words, unit_text
from worker.home import stop_save_s

UNIT = "dlh-node"
"""Name of the service."""
SETTINGS = (
    *(
        "DLH_NODE_CORES",
        "DLH_NODE_ADDRESS",
        "DLH_CACHE_GIB",
        "DLH_LOG_LEVEL",
        "DLH_PAUSE_S",
        "DLH_STOP_SAVE_S",
        "DLH_PEER_EGRESS",
    ),
    *("DLH_READERS", "DLH_RUNS_END_WITH_NODE", "DLH_SANDBOX_MAX_LEVEL", "DLH_SANDBOX_UIDS"),
)
"""What the environment says to an agent that joined; all else, and what is secret, is in its home."""


def node_unit(home: Path, name: str) -> str:
    """Its unit file, with the settings of now. Runs outlive an agent that is stopped, and the next one finds them.

    Raises `ValueError` for a setting that no unit can hold.
    """
    return unit_text(
        f"Node {name} of a deep learning harness",
        [_dlh(), "node", "start", "--home", str(home)],
        service={
            "Restart": "always",
            "RestartSec": "5",
            "KillMode": "process",
            "TimeoutStopSec": f"{stop_save_s() + 30:.0f}",
        },
        environment={setting: os.environ[setting] for setting in SETTINGS if os.environ.get(setting)},
    )


def service_words(home: Path) -> str:
    """How to make it a service."""
    return install_words(shlex.join([_dlh(), "node", "service", "--home", str(home)]), UNIT)


def _dlh() -> str:
    own = Path(sys.argv[0])
    return str(own.resolve() if own.name == "dlh" else Path(sys.executable).with_name("dlh"))

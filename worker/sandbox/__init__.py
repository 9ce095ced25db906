"""Shut a program in: `run_sandboxed` runs one to its end, `start` leaves it running, `host` tells the level.

Imports nothing of the node's launch or supervision, so that control can profile datasets in it as well.
"""

from worker.sandbox.abilities import Host, host
from worker.sandbox.command import EPHEMERAL_PORTS, PORTS_ABI
from worker.sandbox.environment import package_folder, python_environment
from worker.sandbox.model import (
    Completed,
    Encryption,
    Overlay,
    SandboxError,
    SandboxLevel,
    SandboxLimits,
    SandboxSpec,
    SandboxTooWeak,
)
from worker.sandbox.overlay import encryption_problem
from worker.sandbox.overlay import problem as network_problem
from worker.sandbox.run import (
    SandboxProcess,
    remove_leftovers,
    run_sandboxed,
    start,
    to_its_end,
)

__all__ = [
    "EPHEMERAL_PORTS",
    "PORTS_ABI",
    "Completed",
    "Encryption",
    "Host",
    "Overlay",
    "SandboxError",
    "SandboxLevel",
    "SandboxLimits",
    "SandboxProcess",
    "SandboxSpec",
    "SandboxTooWeak",
    "encryption_problem",
    "host",
    "network_problem",
    "package_folder",
    "python_environment",
    "remove_leftovers",
    "run_sandboxed",
    "start",
    "to_its_end",
]

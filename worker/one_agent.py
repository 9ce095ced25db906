"""One agent of a home at a time: two would take each other's messages and share the node's runs."""

from __future__ import annotations

import fcntl
from typing import IO

from worker.home import home, node_name, run_dir


class AgentRuns(Exception):
    """Another agent holds this home; the text says what to do."""


def agent_lock() -> IO[str]:
    """Hold the home until the file is closed, or its process ends, however that is. Raises `AgentRuns`."""
    file = (run_dir() / "agent.lock").open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise AgentRuns(
            f"An agent of {node_name()} runs already in {home()}: stop that one first, such as its service."
        ) from error
    return file

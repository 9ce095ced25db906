"""What every process of a node reads from its environment: `DLH_HOME`, `DLH_STORE`, `DLH_NODE_NAME`, `DLH_REDIS_URL`,
and of a node with a cache of its own `DLH_CACHE`, `DLH_CACHE_GIB`, `DLH_URL` and `DLH_NODE_SECRET`."""

from __future__ import annotations

import math
import os
import socket
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
"""Folder that holds the packages `worker` and `codegen`."""


def home() -> Path:
    """Folder of this installation: `DLH_HOME`, by default `var` beside the packages."""
    return Path(os.environ.get("DLH_HOME") or REPOSITORY / "var").resolve()


def data_roots() -> tuple[Path, ...]:
    """Topmost folders of what programs are given: the home; store and cache where they are named apart from it."""
    named = (os.environ.get(name, "") for name in ("DLH_STORE", "DLH_CACHE"))
    return (home(), *(Path(folder).resolve() for folder in named if folder))


def run_dir(*parts: str) -> Path:
    """A folder below `DLH_HOME/run`, made private to the owner if missing."""
    folder = home().joinpath("run", *parts)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def node_name() -> str:
    """Name of this node: names its queue."""
    return os.environ.get("DLH_NODE_NAME") or socket.gethostname().partition(".")[0].lower()


def ends_runs() -> bool:
    """Whether runs end with the agent (`DLH_RUNS_END_WITH_NODE`), as in a container, where nothing outlives it."""
    return os.environ.get("DLH_RUNS_END_WITH_NODE", "") == "1"


def stop_save_s() -> float:
    """Time that ranks have to save where their node is shut down (`DLH_STOP_SAVE_S`). Containers of compose have 60 s
    for all that their node does then; those of the chart have this and 30 s. Raises `ValueError`, which names the
    variable."""
    text = os.environ.get("DLH_STOP_SAVE_S") or "30"
    try:
        save_s = float(text)
    except ValueError:
        save_s = -1.0
    if not 0 <= save_s < math.inf:
        raise ValueError(f"DLH_STOP_SAVE_S must be a number of seconds, 0 or more, not {text!r}")
    return save_s


def redis_url() -> str:
    """Broker, streams and leases; empty where none is named."""
    return os.environ.get("DLH_REDIS_URL", "")


def cache_dir() -> Path | None:
    """Folder of this node's cache, where it does not see the store (`DLH_CACHE`); None where it does."""
    given = os.environ.get("DLH_CACHE", "")
    return Path(given).resolve() if given else None


def cache_limit_bytes() -> int:
    """How much the cache may hold (`DLH_CACHE_GIB`, by default 50)."""
    return int(float(os.environ.get("DLH_CACHE_GIB") or 50) * 2**30)


def portal_url() -> str:
    """Address of the portal; empty where none is named."""
    return os.environ.get("DLH_URL", "").rstrip("/")


def node_secret() -> str:
    """What this node got when it joined; empty for one that was started beside the portal."""
    return os.environ.get("DLH_NODE_SECRET", "")

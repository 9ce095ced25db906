"""The command line of each part, for the stack that runs them all and for a container that runs one."""

from __future__ import annotations

import sys

from harness.env import LOG_LEVELS, env_choice

PORTAL_SHUTDOWN_S = 3
"""Open live streams end by then."""
PORTAL_KEEP_ALIVE_S = 75
"""Longer than proxies keep connections that nobody uses (60 s): one that the portal closes in the moment in which a
proxy sends a change over it ends in a 502, since a change is not sent twice."""


def portal_command(*listen: str) -> list[str]:
    """The portal under uvicorn; `listen` says where (`--fd 3`, `--host 0.0.0.0 --port 8000`)."""
    options = ["--timeout-graceful-shutdown", str(PORTAL_SHUTDOWN_S), "--no-server-header", "--lifespan", "off"]
    options += ["--timeout-keep-alive", str(PORTAL_KEEP_ALIVE_S)]
    options += ["--http", "harness.stack.lingering:LingeringProtocol"]
    options.append("--no-proxy-headers")  # uvicorn would believe any local client; DLH_BEHIND_PROXY decides
    return [sys.executable, "-m", "uvicorn", "harness.asgi:application", *listen, *options]


def control_command(name: str) -> list[str]:
    """One control process with its own beat; of any number one decides at a time."""
    options = ["-Q", "control", "--concurrency", "2", "--max-tasks-per-child", "5000"]
    options += ["--without-gossip", "--without-mingle", "--loglevel", env_choice("DLH_LOG_LEVEL", LOG_LEVELS)]
    return [sys.executable, "-m", "celery", "-A", "harness.celery:app", "worker", "-n", f"control@{name}", *options]


def node_command() -> list[str]:
    """The agent of a node, which `DLH_NODE_NAME` names."""
    return [sys.executable, "-P", "-m", "worker.agent"]

"""What a node says of itself to control, every few seconds."""

from __future__ import annotations

import compileall
import logging
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import redis
from kombu.exceptions import KombuError

from worker import devices, host_limits, sandbox
from worker.address import links, own_address
from worker.agent import sweep
from worker.celery_app import send_to_control
from worker.home import node_name
from worker.transfer.depot import cache_report

BEAT_S = 5.0
LEAVE_WAIT_S = 5.0
"""So long the last word may take: with a broker that is away it must not keep runs from being ended."""
_log = logging.getLogger(__name__)


def report() -> dict[str, Any]:
    """What control wants to know of this node."""
    host = sandbox.host()
    found = devices.devices()
    return {
        "name": node_name(),
        "boot_id": devices.boot_id(),
        "address": own_address(),
        "time_s": time.time(),
        "devices": found,
        "cpu_cores": devices.cpu_cores(),
        "memory_bytes": host_limits.memory_total_bytes(),
        "sandbox_level": int(host.level),
        "sandbox_reason": host.reason,
        "description": {
            **devices.description(),
            "links": links(),
            "network_problem": sandbox.network_problem(),
            **cache_report(),
        },
        "running": [{"job_id": entry.job_id, "token": entry.token} for entry in sweep()],
    }


class Heartbeat:
    """A thread beside the Celery worker that reports every few seconds and at once when told to."""

    def __init__(self) -> None:
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._leaves = False
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to report."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reporting."""
        self._ended.set()
        self._wake.set()

    def leave(self) -> None:
        """Stop, and tell control that nothing can be started here any more."""
        self._leaves = True
        self.stop()
        if self._thread.is_alive():
            self._thread.join(LEAVE_WAIT_S)

    def now(self) -> None:
        """Report at once."""
        self._wake.set()

    def _run(self) -> None:
        compileall.compile_dir(sandbox.package_folder("worker"), quiet=2)  # ranks cannot write it, and start faster
        while not self._ended.is_set():
            self._tell("control.node_report", report)
            self._wake.wait(BEAT_S)
            self._wake.clear()
        if self._leaves:  # after the last report, which says that the node is up
            self._tell("control.node_leave", node_name)

    @staticmethod
    def _tell(task: str, told: Callable[[], object]) -> None:
        try:
            send_to_control(task, [told()], expires_s=4 * BEAT_S)
        except (KombuError, redis.RedisError, OSError) as error:
            _log.warning("cannot report, the broker is away: %s", error)
        except Exception:
            _log.exception("cannot report")


@lru_cache(maxsize=1)
def heartbeat() -> Heartbeat:
    """The heartbeat of this process."""
    return Heartbeat()

"""What a node says of itself to control, every few seconds."""

from __future__ import annotations

import compileall
import logging
import threading
import uuid
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import redis
from kombu.exceptions import KombuError
from redis.backoff import NoBackoff
from redis.retry import Retry

from worker import devices, host_limits, sandbox
from worker.address import links, own_address
from worker.agent import sweep
from worker.celery_app import send_to_control
from worker.clock import clock_ahead_s
from worker.facts import release
from worker.home import node_name, redis_url
from worker.idle_power import IdleMeter
from worker.transfer.ahead import copying_report
from worker.transfer.report import cache_report

BEAT_S = 5.0
ASK_S = 2.0
"""So long the broker may take to tell its time."""
LEAVE_WAIT_S = 5.0
"""So long the last word may take: with a broker that is away it must not keep runs from being ended."""
_log = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def _broker() -> redis.Redis:
    """Gives up soon: a node whose network is back must not wait for this before it says so."""
    once = Retry(NoBackoff(), 0)
    return redis.Redis.from_url(redis_url(), socket_timeout=ASK_S, socket_connect_timeout=ASK_S, retry=once)


def own_clock_ahead_s() -> float | None:
    """How far this node's clock is ahead of the broker's; None: it cannot be told now."""
    try:
        return clock_ahead_s(_broker()) if redis_url() else None
    except (redis.RedisError, OSError):
        return None


@lru_cache(maxsize=1)
def _idle_meter() -> IdleMeter:
    """Of this process: each reading counts from the last one."""
    return IdleMeter()


def report() -> dict[str, Any]:
    """What control wants to know of this node."""
    host = sandbox.host()
    found, running = devices.devices(), sweep()
    return {
        "name": node_name(),
        "boot_id": devices.boot_id(),
        "address": own_address(),
        "clock_ahead_s": own_clock_ahead_s(),
        "devices": found,
        "cpu_cores": devices.cpu_cores(),
        "memory_bytes": host_limits.memory_total_bytes(),
        "sandbox_level": int(host.level),
        "sandbox_reason": host.reason,
        "description": {
            **devices.description(),
            "release": release(),
            "start_weights": True,  # what is tried here starts from them; earlier agents leave them aside
            "links": links(),
            "network_problem": sandbox.network_problem(),
            "encryption_problem": sandbox.encryption_problem(),
            "kernel_encryption_problem": sandbox.encryption_problem(by_kernel=True),
            **cache_report(**copying_report()),
        },
        "running": [{"job_id": entry.job_id, "token": entry.token} for entry in running],
        "idle_power": _idle_meter().read(is_held=bool(running)),
    }


class Heartbeat:
    """A thread beside the Celery worker that reports every few seconds and at once when told to."""

    def __init__(self) -> None:
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._leaves = False
        self._id = uuid.uuid4().hex
        """Of this agent: what it reported may be read after its last word, and then counts no more."""
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
            self._tell("control.node_report", lambda: {**report(), "agent_id": self._id})
            self._wake.wait(BEAT_S)
            self._wake.clear()
        if self._leaves:  # after the last report, which says that the node is up
            self._tell("control.node_leave", node_name, self._id)

    @staticmethod
    def _tell(task: str, told: Callable[[], object], *more: str) -> None:
        try:
            # Control counts by another clock: with ours behind, the word would be out of date before it is sent.
            behind_s = -(own_clock_ahead_s() or 0.0)
            send_to_control(task, [told(), *more], expires_s=4 * BEAT_S + max(0.0, behind_s))
        except (KombuError, redis.RedisError, OSError) as error:
            _log.warning("cannot report, %s: %s", unheard_words(error), error)
        except Exception:
            _log.exception("cannot report")


def unheard_words(error: Exception) -> str:
    """Why the broker takes nothing: most errors are those of one that is away."""
    if not isinstance(error, redis.AuthenticationError) and not isinstance(error.__cause__, redis.AuthenticationError):
        return "the broker is away"
    joins = f"`dlh pool add {node_name()}` makes a token with which it joins again"
    return f"the broker does not know this node's login: it was removed from the pool, or its password changed; {joins}"


@lru_cache(maxsize=1)
def heartbeat() -> Heartbeat:
    """The heartbeat of this process."""
    return Heartbeat()

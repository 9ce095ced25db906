"""Read what an agent reports of its node."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from harness.broker import own_clock_ahead_s
from harness.plain import INTEGER_MAX, plain
from harness.pool.devices import DeviceFields
from harness.pool.idle_power import IdleReading, idle_readings
from harness.pool.models import DeviceKind, Node
from harness.pool.terms import CLOCK_LIMIT_S

CLOCK_OFF = "clock_off_s"
"""In `Node.description`: how far its clock is ahead of ours (behind: below 0), where that is too far for work."""
TWINS_AT = "twins_at"
"""In `Node.description`: when two machines were last found to report as this node (epoch)."""
TWINS_FOR_S = 60.0
"""So long after that one of them is taken to be there still."""
AGENTS = "agents"
"""In `Node.description`, and never shown: of each agent that reported lately its id, when it did last, and when it last
spoke again after another one had (epoch; None: never). Last is who spoke last."""
_AGENTS_MOST = 16
_SMALL_MAX, _INTEGER_MAX = 2**15 - 1, 2**31 - 1


def report_read(report: dict[str, Any]) -> tuple[dict[str, Any], DeviceFields, list[IdleReading]]:
    """(fields of the node, its devices, what they draw idle). Raises one of several errors where the report makes no
    sense."""
    report = plain(report)
    node = {
        "cpu_cores": _whole(report.get("cpu_cores", 0), _INTEGER_MAX),
        "memory_bytes": _whole(report.get("memory_bytes", 0)),
        "sandbox_level": _whole(report.get("sandbox_level", 0), _SMALL_MAX),
        "sandbox_reason": str(report.get("sandbox_reason", "")),
        "description": {**_described(report), **_clock_off(report)},
        "boot_id": str(report.get("boot_id", ""))[:64],
        "address": str(report.get("address", ""))[:64],
        "running": [{"job_id": str(item["job_id"]), "token": int(item["token"])} for item in report.get("running", [])],
    }
    devices = {
        (DeviceKind(item["kind"]).value, _whole(item["index"], _INTEGER_MAX)): {
            "model_name": str(item.get("model_name", ""))[:120],
            "memory_bytes": _whole(item.get("memory_bytes", 0)),
            "uuid": str(item.get("uuid", ""))[:80],
        }
        for item in report.get("devices", [])
    }
    return node, devices, idle_readings(report.get("idle_power"))


def _described(report: Mapping[str, Any]) -> dict[str, Any]:
    """What the agent says, without what control alone finds out."""
    told = dict(report.get("description", {}))
    return {key: value for key, value in told.items() if key not in (TWINS_AT, AGENTS)}


def clock_settle(told: dict[str, Any], before: Node) -> None:
    """Where a report could not tell how far the clock is off, what was told last holds, until the host is started anew:
    its clock may then be another."""
    description = told["description"]
    if description.get(CLOCK_OFF, 0.0) is None:
        del description[CLOCK_OFF]
        if CLOCK_OFF in before.description and told["boot_id"] == before.boot_id:
            description[CLOCK_OFF] = before.description[CLOCK_OFF]


def twins_settle(told: dict[str, Any], before: Node, agent_id: str) -> None:
    """Two machines that were started with one node's secret: an agent speaks again after another one has, twice.

    Once it may do so after a restart, whose messages crossed. `agent_id`: of the one that reports now, new at each
    start; empty where its release is an earlier one, and then it tells nothing.
    """
    now_s, at_s = time.time(), before.description.get(TWINS_AT, 0.0)
    agents = [agent for agent in before.description.get(AGENTS, ()) if abs(now_s - agent[1]) < TWINS_FOR_S]
    if agent_id:
        again_s = None
        if mine := next((agent for agent in agents if agent[0] == agent_id), None):
            again_s = mine[2]
            if mine is not agents[-1]:
                at_s = now_s if again_s is not None and abs(now_s - again_s) < TWINS_FOR_S else at_s
                again_s = now_s
            agents.remove(mine)
        agents.append([agent_id, now_s, again_s])
    if agents:
        told["description"][AGENTS] = agents[-_AGENTS_MOST:]
    if abs(now_s - at_s) < TWINS_FOR_S:
        told["description"][TWINS_AT] = at_s


def _clock_off(report: Mapping[str, Any]) -> dict[str, float | None]:
    """How far the node's clock is off ours where that is too far; None where it cannot be told now, which an agent of
    an earlier release never can.

    Both are compared with the broker's, so that it does not matter how long the report was under way.
    """
    if "clock_ahead_s" not in report:
        return {}
    ahead_s = report["clock_ahead_s"]
    if ahead_s is None or (ours_s := own_clock_ahead_s()) is None:
        return {CLOCK_OFF: None}
    off_s = round(float(ahead_s) - ours_s, 1)
    return {CLOCK_OFF: off_s} if abs(off_s) > CLOCK_LIMIT_S else {}


def _whole(value: Any, most: int = INTEGER_MAX) -> int:
    """A number that its column holds. Raises `ValueError`, `TypeError`."""
    number = int(value)
    if not 0 <= number <= most:
        raise ValueError(f"{number} is not from 0 to {most}")
    return number

"""How an attempt ended, told by the agent: of one whose supervisor no longer can, or that never had one."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from worker import registry, sandbox
from worker.cause import failure
from worker.events import SUPERVISOR_RANK, Event, EventKind, FailureCode, Outcome
from worker.home import node_name, redis_url
from worker.plan import RunPlan
from worker.telemetry.forward import Forwarder

SEND_WAIT_S = 5.0
LAST_SEQ = 1 << 40
"""Sequence of such an EXITED event: after all of the supervisor's own."""
_log = logging.getLogger("worker.exits")


def lost_record(entry: registry.Entry) -> None:
    """The supervisor was killed: its sandbox died with it; write and send the record that it could not."""
    if entry.paths.exit_file(entry.token).exists():
        return
    sandbox.remove_leftovers(entry.sandbox_name)
    text = "The process that watched over the run was ended from outside."
    if entry.rebooted:
        text = f"The machine of node {node_name()} was restarted during the run."
    cause = failure(FailureCode.NODE_LOST, text)
    event = _exited(entry.job_id, entry.token, Outcome.LOST, cause)
    try:
        registry.write_json(entry.paths.exit_file(entry.token), event.to_json())
    except OSError as error:  # a full disk must not keep the node from reporting
        _log.warning("cannot record the end of %s/%d: %s", entry.job_id, entry.token, error)
    _send(event, _stream_of(entry))


def exited_send(job_id: str, token: int, outcome: Outcome, cause: dict[str, Any] | None, stream: int) -> None:
    """Tell control how an attempt ended that no supervisor speaks for."""
    _send(_exited(job_id, token, outcome, cause), stream)


def plan_of(entry: registry.Entry) -> RunPlan | None:
    """None where there is none that can be read."""
    try:
        return RunPlan.from_dict(json.loads(entry.paths.plan(entry.token).read_text()))
    except (OSError, ValueError):
        return None


def _stream_of(entry: registry.Entry) -> int:
    """Where its supervisor sent what it said: the end must not overtake that. Without a plan it printed nothing."""
    plan = plan_of(entry)
    return plan.event_stream if plan else 0


def _exited(job_id: str, token: int, outcome: Outcome, cause: dict[str, Any] | None) -> Event:
    data = {"outcome": str(outcome), "failure": cause, "node": node_name()}
    return Event(
        kind=EventKind.EXITED, job_id=job_id, token=token, rank=SUPERVISOR_RANK, seq=LAST_SEQ,
        time_s=time.time(), data=data,
    )  # fmt: skip


def _send(event: Event, stream: int) -> None:
    # The lease of the attempt may be held by its supervisor on another node.
    forwarder = Forwarder(redis_url(), event.job_id, event.token, stream=stream, leased=False)
    forwarder.send([event])
    forwarder.close(SEND_WAIT_S)

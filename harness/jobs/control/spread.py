"""Attempts whose ranks lie on several nodes: they end when every node has told how its part ended, or is lost.

Each node's end is a row of the job's history (`node_end`). The first bad one has the others stopped, where they cannot
go on without it (`survivors`); what became of the attempt is told by the first node whose own ranks are to blame, not
by those that only lost their siblings.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import redis
from django.db import transaction
from django.utils import timezone

from harness.broker import client, task_send_on_commit
from harness.jobs.control.attempts import attempt_end, exit_record
from harness.jobs.control.awaited import return_overdue
from harness.jobs.control.clock import Steady
from harness.jobs.control.found import Found, found_read
from harness.jobs.control.parts import left_nodes, nodes_of
from harness.jobs.control.reading import end_told
from harness.jobs.control.releasing import release_due
from harness.jobs.control.rescue import offered_read, rescue_awaited, rescue_take
from harness.jobs.control.returns import outcome_before_return
from harness.jobs.control.saved import checkpoint_set_aside
from harness.jobs.control.streams import is_behind
from harness.jobs.control.survivors import first_lose, node_leave
from harness.jobs.control.verdict import is_unmet, refused_end, verdict
from harness.jobs.models import Job, JobAttempt, JobEvent
from harness.jobs.node_ends import END_KIND, NodeEnd, end_read
from harness.jobs.ports import network_port_draw
from harness.jobs.states import job_note
from harness.jobs.stopping import stop_message
from harness.pool.models import Device, NetworkEncryption, NetworkKind, Node, NodeState
from harness.pool.networks import ENCRYPTED, encryption_problem, network_kind, network_problem
from harness.pool.services import node_queue, pool_setting_get
from worker.events import Event, EventKind, FailureCode, Outcome, lease_key
from worker.sandbox.overlay import NUMBERS
from worker.states import JobState

ANSWER_LIMIT = timedelta(seconds=20)
"""A node that neither runs its part nor told its end for this long after the start message is asked again, or lost."""
ASKED_LATELY = 3 * ANSWER_LIMIT
SENDS_MAX = 6
"""Start messages, after which a node is given up."""
_GOOD = frozenset({Outcome.SUCCEEDED, Outcome.PAUSED})
_WORDS = {
    Outcome.SUCCEEDED: "is done",
    Outcome.FAILED: "failed",
    Outcome.LOST: "was lost",
    Outcome.PAUSED: "has paused",
    Outcome.CANCELLED: "was stopped",
}


def addresses_of(devices: Sequence[Device]) -> dict[str, str]:
    """Node -> address, where the devices lie on several; needs `device.node`."""
    found = {device.node.name: device.node.address for device in devices}
    return found if len(found) > 1 else {}


@dataclass(frozen=True, kw_only=True)
class RanksNetwork:
    """What the ranks of an attempt on several nodes have for themselves."""

    number: int = 0
    """0: the hosts' networks."""
    port: int = 0
    """UDP port of WireGuard; 0: it is not encrypted."""
    note: str = ""
    """What a person may miss, and why."""


def network_of(devices: Sequence[Device], addresses: Mapping[str, str]) -> RanksNetwork:
    """The network for these nodes' ranks alone; needs `device.node`.

    Numbers are drawn from 16 million: should two living attempts on one node draw the same, the second starts again.
    Where it must be encrypted it is asked for in any case: a node that cannot fails to start, and nothing is in clear.
    """
    if not addresses:
        return RanksNetwork()
    setting, nodes = pool_setting_get(), {device.node for device in devices}
    wish, kind = setting.network_encryption, network_kind(nodes, setting)
    number = 1 + secrets.randbelow(NUMBERS - 1)
    if wish == NetworkEncryption.REQUIRED or kind in ENCRYPTED:
        return RanksNetwork(number=number, port=network_port_draw(nodes))
    if kind == NetworkKind.HOSTS:
        problem = network_problem(nodes) if setting.ranks_apart else "it is turned off"
        return RanksNetwork(note=f"The ranks have no network of their own: {problem}.")
    told = wish == NetworkEncryption.PREFERRED
    note = f"What the ranks send is not encrypted: {encryption_problem(nodes, wish)}." if told else ""
    return RanksNetwork(number=number, note=note)


def ends_take(attempt: JobAttempt, events: Sequence[Event], found: Found | None = None) -> None:
    """Take in EXITED events of a spread attempt. `found`: as in `attempt_end`."""
    for event in events:
        node, (outcome, failure) = str(event.data.get("node", "")), end_told(event)
        saved = tuple(offered_read(event.data.get("rescue")))
        end = NodeEnd(
            node=node, outcome=outcome, failure=failure, rescue=saved, ended_s=event.time_s,
            leftover=str(event.data.get("leftover") or ""), unmet=event.data.get("unmet") is True,
        )  # fmt: skip
        _add(attempt, end)
    _conclude(attempt, found)


@transaction.atomic
def _add(attempt: JobAttempt, end: NodeEnd) -> None:
    """Note how one node's part ended, once; where the others go on without it, what it held is given back with that."""
    Job.objects.select_for_update().filter(pk=attempt.job_id).values_list("pk").first()
    if end.node not in nodes_of(attempt) or end.node in _ends(attempt):
        return
    told = f": {end.message}" if end.message else ""
    JobEvent.objects.create(
        job_id=attempt.job_id,
        kind=END_KIND,
        token=attempt.number,
        message=f"The part on {end.node} {_WORDS[end.outcome]}{told}"[:4000],
        data=end.to_dict(),
    )
    if not node_leave(attempt, end):
        first_lose(attempt, end)
    release_due(attempt)


def _ends(attempt: JobAttempt) -> dict[str, NodeEnd]:
    """Node -> how its part ended, in the order in which that was heard. What was survived is as new in `attempt`."""
    rows = list(JobEvent.objects.filter(job_id=attempt.job_id, kind=END_KIND, token=attempt.number).order_by("pk"))
    attempt.refresh_from_db(fields=["width"])
    return {end.node: end for end in map(end_read, (row.data for row in rows))}


def _conclude(attempt: JobAttempt, found: Found | None = None) -> None:
    """End the attempt where every node has told; stop the others where one ended badly, or never met them."""
    ends = _ends(attempt)
    missing = [node for node in nodes_of(attempt) if node not in ends]
    if not missing:
        if found is None:  # before the lock: reading may take long
            found = found_read(attempt.job_id, verdict(_counted(attempt, ends))[0])
        _end(attempt, ends, found)
    elif (ended_badly := _ended_badly(attempt, ends)) or is_unmet(ends.values()):
        for node in missing:
            _stop(attempt, node, _how(attempt, ends, ended_badly=ended_badly))


@transaction.atomic
def _end(attempt: JobAttempt, ends: Mapping[str, NodeEnd], found: Found) -> None:
    """End it, once, as of the last part's end, whichever was heard last; what its nodes saved when they lost the first
    one becomes the job's with that."""
    job = Job.objects.select_for_update().get(pk=attempt.job_id)
    if JobAttempt.objects.filter(pk=attempt.pk, ended_at=None).exists():
        rescue_take(job, attempt, {node: end.rescue for node, end in ends.items()})
        known_s = [end.ended_s for end in ends.values() if end.ended_s is not None]
        ended_s = max(known_s) if len(known_s) == len(ends) else None
        counted = _counted(attempt, ends)
        if refused := refused_end(counted):
            checkpoint_set_aside(job, refused.leftover)
        attempt_end(attempt, *verdict(counted), found, ended_s=ended_s)


def _how(attempt: JobAttempt, ends: Mapping[str, NodeEnd], *, ended_badly: bool) -> str:
    """What a node is asked that has not ended yet."""
    if attempt.job.state == JobState.CANCELLING:
        return "cancel"
    if is_unmet(ends.values()):  # they would wait for its ranks, and have nothing to save
        return "end"
    if not ended_badly or any(end.has_saved for end in ends.values()):  # they save now, and leave by themselves
        return "pause"
    return "rescue" if rescue_awaited(attempt, timezone.now()) else "end"


def _ended_badly(attempt: JobAttempt, ends: Mapping[str, NodeEnd]) -> bool:
    """Whether a node has that the others cannot do without."""
    left = left_nodes(attempt)
    return any(end.outcome not in _GOOD for node, end in ends.items() if node not in left)


def _counted(attempt: JobAttempt, ends: Mapping[str, NodeEnd]) -> list[NodeEnd]:
    """What the end of the attempt follows from: what was survived explains a bad one, and is nothing to a good one."""
    left = left_nodes(attempt)
    stayed = [end for node, end in ends.items() if node not in left]
    return stayed + [ends[node] for node in ends if node in left and _ended_badly(attempt, ends)]


def _stop(attempt: JobAttempt, node: str, how: str) -> None:
    task_send_on_commit("node.stop", stop_message(attempt, how), queue=node_queue(node))


def spread_check(attempt: JobAttempt, nodes: Mapping[str, Node], now: datetime, steady: Steady) -> None:
    """Make what nodes told, what lies on disk and what can be heard agree. `attempt.job` is open and its newest."""
    from harness.jobs.control.tick import start_send

    behind = attempt.sent_at is not None and is_behind(attempt.run_plan.event_stream, steady=steady.recheck())
    if not behind:
        _read_from_disk(attempt)
    ends = _ends(attempt)
    missing = [node for node in nodes_of(attempt) if node not in ends]
    stopping = attempt.job.state in {JobState.CANCELLING, JobState.PAUSING}
    ended_badly = _ended_badly(attempt, ends)
    is_over = stopping or ended_badly or is_unmet(ends.values())
    # For a node that is down it waits in its queue since it was first told.
    heard = [node for node in missing if not _is_down(node, nodes)]
    for node in heard if is_over else ():
        _stop(attempt, node, _how(attempt, ends, ended_badly=ended_badly))
    waited = abs(now - (attempt.sent_at or attempt.created_at))
    if behind or not steady.recheck() or (waited <= ANSWER_LIMIT and (attempt.sent_at is not None or stopping)):
        return
    silent = [node for node in missing if not _is_alive(attempt, node, nodes)]
    if attempt.job.state == JobState.RETURNING:  # nobody waits for devices: it may be started anew and go on
        silent = [node for node in silent if return_overdue(attempt, [node], nodes, now)]
    if not steady.recheck():
        return  # it stood still meanwhile: leases may have run out for want of a broker
    given_up = is_over or _was_asked_enough(attempt, waited) or attempt.job.state == JobState.RETURNING
    lost = [node for node in silent if given_up or _is_down(node, nodes)]
    for node in lost:
        outcome, failure = _lost_end(attempt, node, stopping=stopping, is_up=not _is_down(node, nodes))
        _add(attempt, NodeEnd(node=node, outcome=outcome, failure=failure, ended_s=now.timestamp()))
    if lost:
        _conclude(attempt)
    elif silent:
        start_send(attempt)


def _was_asked_enough(attempt: JobAttempt, waited: timedelta) -> bool:
    """Whether no further start message helps. All parts of what trains had begun: one that is silent went with its pod
    or container, and the agent that came after it starts no attempt twice. One more message is time to speak; a message
    of long ago was for another silence, which ended."""
    began, asked = attempt.running_at, attempt.sent_at
    # The start was by the node's clock, which may be behind: the first message was none that came later.
    asked_since = began is not None and asked is not None and asked > began and attempt.sends > 1
    return attempt.sends >= SENDS_MAX or (asked_since and waited <= ASKED_LATELY)


def _read_from_disk(attempt: JobAttempt) -> None:
    """Ends that the broker lost."""
    nodes, ends = nodes_of(attempt), _ends(attempt)
    found = [exit_record(attempt, "" if node == nodes[0] else node) for node in nodes if node not in ends]
    told = [event for event in found if event is not None and event.kind == EventKind.EXITED]
    if told:
        ends_take(attempt, told)


def _lost_end(attempt: JobAttempt, node: str, *, stopping: bool, is_up: bool) -> tuple[Outcome, dict[str, Any] | None]:
    """The end of a part that nobody will tell of any more. An elastic run whose first node is lost has not saved.

    A part that had ended well and was not the first had but its logs left to return: no run is made again for these.
    """
    if node != nodes_of(attempt)[0] and (told := outcome_before_return(attempt, node)) in _GOOD:
        job_note(attempt.job, "note", f"The rest of the logs of {node}, which does not answer, is not in the store.")
        return Outcome(told), None
    was_to_save = attempt.job.state == JobState.PAUSING and attempt.run_plan.least and node == nodes_of(attempt)[0]
    if stopping and not was_to_save:
        return (Outcome.CANCELLED if attempt.job.state == JobState.CANCELLING else Outcome.PAUSED), None
    text = f"The part on {node} stopped responding." if is_up else f"The node {node} does not answer."
    return Outcome.LOST, {"code": str(FailureCode.NODE_LOST), "message": text}


def _is_down(node: str, nodes: Mapping[str, Node]) -> bool:
    return node not in nodes or nodes[node].state == NodeState.DOWN


def _is_alive(attempt: JobAttempt, node: str, nodes: Mapping[str, Node]) -> bool:
    """Whether the node's fresh report names its part, or its supervisor holds its lease."""
    me = {"job_id": attempt.job_id, "token": attempt.number}
    if not _is_down(node, nodes) and me in nodes[node].running:
        return True
    part = "" if node == nodes_of(attempt)[0] else node
    try:
        return bool(client().get(lease_key(attempt.job_id, part)) == str(attempt.number))
    except redis.RedisError:
        # Without a broker nobody can be heard: call nothing lost.
        return True

"""Reconcile: make what is wanted (the database) and what is (nodes, disk, broker) agree, whatever was lost between."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from datetime import datetime, timedelta

import redis
from django.utils import timezone

from harness.broker import client, task_send
from harness.datasets.reading import datasets_resend
from harness.jobs.control.attempts import attempt_end, exit_record
from harness.jobs.control.awaited import return_overdue
from harness.jobs.control.clock import JumpGuard, Steady, since_start_s
from harness.jobs.control.effects import events_apply
from harness.jobs.control.hearing import hearing_forget, hearing_renew, hearing_settled
from harness.jobs.control.parts import is_spread, unheard_nodes
from harness.jobs.control.reading import end_told
from harness.jobs.control.spread import ANSWER_LIMIT, SENDS_MAX, spread_check
from harness.jobs.control.streams import is_behind
from harness.jobs.control.tick import start_send, tick
from harness.jobs.control.widths import width_again
from harness.jobs.exports import exports_expire
from harness.jobs.models import Allocation, Job, JobAttempt
from harness.jobs.predictions import predictions_expire
from harness.jobs.stopping import stop_message
from harness.pool.broker_users import broker_users_restore
from harness.pool.models import Node, NodeState
from harness.pool.services import node_queue, nodes_mark_down
from harness.release import release
from worker.events import FailureCode, Outcome, lease_key
from worker.states import HAS_ATTEMPT, JobState

EXIT_AFTER = timedelta(seconds=5)
"""Without an event for this long we look for an exit record."""
UNSEEN_LIMIT = timedelta(seconds=30)
"""Without event, lease or report for this long an attempt is lost."""
_log = logging.getLogger(__name__)
_guard = JumpGuard()


def reconcile() -> None:
    """Do all of it. Each part is guarded by compare-and-set, so several control processes may do it at once."""
    began_s, now = since_start_s(), timezone.now()
    was_steady = _steady(now)
    steady = Steady(was_steady, began_s)
    if steady.recheck():
        nodes_mark_down(now)
    nodes = {node.name: node for node in Node.objects.all()}
    for attempt in JobAttempt.objects.filter(ended_at=None).select_related("job"):
        try:
            _attempt_check(attempt, nodes, now, steady)
        except Exception:
            # One attempt that cannot be judged must not keep the others from being seen to.
            _log.exception("cannot check attempt %s of job %s", attempt.number, attempt.job_id)
    _orphans_stop(nodes)
    _allocations_free()
    if steady.recheck():
        predictions_expire()
        exports_expire()
    try:
        broker_users_restore()
        datasets_resend()
    except redis.RedisError as error:
        _log.warning("cannot look for lost readings: %s", error)
    with suppress(redis.RedisError):
        hearing_renew() if steady.recheck() or not was_steady else hearing_forget()
    tick()


def _steady(now: datetime) -> bool:
    """Whether silence means something: not after the clock was set, nor after nobody could be heard for a while."""
    if not _guard.steady(now.timestamp(), time.monotonic()):
        _log.warning("the clock was set: nobody is called lost until all had time to speak")
        return False
    if not hearing_settled():
        _log.info("nodes could not be heard for a while: nobody is called lost until all had time to speak")
        return False
    return True


def _attempt_check(attempt: JobAttempt, nodes: dict[str, Node], now: datetime, steady: Steady) -> None:
    job = attempt.job
    if attempt.number != job.token or JobState(job.state) not in HAS_ATTEMPT:
        # Nothing can come of it any more: its job went on without it.
        attempt_end(
            attempt, Outcome.LOST, {"code": str(FailureCode.NODE_LOST), "message": "Another attempt took over."}
        )
        return
    if is_spread(attempt):
        spread_check(attempt, nodes, now, steady)
        return
    # A time to come was written before the clock was set back: as far off as it is, so long ago may it have been.
    quiet = abs(now - (attempt.seen_at or attempt.sent_at or attempt.created_at))
    is_sent_and_quiet = attempt.sent_at is not None and quiet > EXIT_AFTER
    behind = is_sent_and_quiet and is_behind(attempt.run_plan.event_stream, steady=steady.recheck())
    if quiet > EXIT_AFTER and not behind and (event := exit_record(attempt)):
        events_apply(job.pk, [event])
        if JobAttempt.objects.filter(pk=attempt.pk, ended_at=None).exists():
            # Its number was seen, its effect was not: the mark is from events that came after it in another order.
            attempt_end(attempt, *end_told(event), ended_s=event.time_s)
        return
    if job.state in {JobState.CANCELLING, JobState.PAUSING}:
        _stop_again(attempt, "cancel" if job.state == JobState.CANCELLING else "pause", nodes)
    elif job.state == JobState.RUNNING:
        width_again(attempt, now)
    alive = behind or _is_alive(attempt, nodes)
    if job.state == JobState.RETURNING:
        if steady.recheck() and not alive and return_overdue(attempt, _nodes_of(attempt), nodes, now):
            # A run that failed by its own fault does so again: it is not made again for what did not return.
            outcome = Outcome.FAILED if attempt.failure else Outcome.LOST
            attempt_end(attempt, outcome, attempt.failure or _lost_words(attempt, nodes))
    elif attempt.started_at is None and not alive:
        _start_again(attempt, nodes, now, steady)
    elif steady.recheck() and not alive and quiet > UNSEEN_LIMIT:
        attempt_end(attempt, Outcome.LOST, _lost_words(attempt, nodes))


def _nodes_of(attempt: JobAttempt) -> list[str]:
    return sorted(attempt.run_plan.nodes)


def _is_alive(attempt: JobAttempt, nodes: dict[str, Node]) -> bool:
    """Whether a node's fresh report names it, or its supervisor holds the lease."""
    me = {"job_id": attempt.job_id, "token": attempt.number}
    for name in _nodes_of(attempt):
        node = nodes.get(name)
        if node and node.state != NodeState.DOWN and me in node.running:
            return True
    try:
        holder = client().get(lease_key(attempt.job_id))
    except redis.RedisError:
        # Without a broker nobody can be heard: call nothing lost.
        return True
    return holder == str(attempt.number)


def _start_again(attempt: JobAttempt, nodes: dict[str, Node], now: datetime, steady: Steady) -> None:
    """Send a start that was never sent or never answered; give the attempt up where its node is gone.

    Nothing is given up by a round that stood still; to send once more does no harm: a node starts an attempt once.
    """
    may_lose = steady.recheck()
    waited = abs(now - (attempt.sent_at or attempt.created_at))
    gone = [name for name in _nodes_of(attempt) if name not in nodes or nodes[name].state == NodeState.DOWN]
    if may_lose and gone and waited > ANSWER_LIMIT:
        attempt_end(attempt, Outcome.LOST, _lost_words(attempt, nodes))
    elif may_lose and attempt.sends >= SENDS_MAX and waited > ANSWER_LIMIT:
        attempt_end(attempt, Outcome.LOST, _unanswered_words(attempt, nodes))
    elif attempt.job.state == JobState.PLACED and (attempt.sent_at is None or waited > ANSWER_LIMIT):
        _log.info("sending the start of %s/%s again", attempt.job_id, attempt.number)
        start_send(attempt)
    elif may_lose and attempt.job.state != JobState.PLACED and waited > ANSWER_LIMIT:
        # Asked to stop before it started, and no node knows it: there is nothing to stop.
        outcome = Outcome.CANCELLED if attempt.job.state == JobState.CANCELLING else Outcome.PAUSED
        attempt_end(attempt, outcome, None)


def _stop_again(attempt: JobAttempt, how: str, nodes: dict[str, Node]) -> None:
    """Tell it again to whom can be heard. For others it waits in their queue since it was first told."""
    for name in _nodes_of(attempt):
        if name in nodes and nodes[name].state != NodeState.DOWN:
            task_send("node.stop", stop_message(attempt, how), queue=node_queue(name))


def _lost_words(attempt: JobAttempt, nodes: dict[str, Node]) -> dict[str, str]:
    names = _nodes_of(attempt)
    down = [name for name in names if name not in nodes or nodes[name].state == NodeState.DOWN]
    message = (
        f"The node {', '.join(down)} does not answer." if down else f"The run on {', '.join(names)} stopped responding."
    )
    return {"code": str(FailureCode.NODE_LOST), "message": message}


def _unanswered_words(attempt: JobAttempt, nodes: dict[str, Node]) -> dict[str, str]:
    """With what most often is the reason: an older agent refuses plans with what it does not know, weights for one."""
    names, ours = _nodes_of(attempt), release()
    message = f"The node {', '.join(names)} did not answer {attempt.sends} start messages."
    theirs = {name: str(nodes[name].description.get("release") or "an older one") for name in names}
    others = ", ".join(f"{name} has {told}" for name, told in theirs.items() if told != ours)
    if others:
        message += f" Perhaps it cannot read them: the portal has release {ours} of the platform, and {others}."
    return {"code": str(FailureCode.START_FAILED), "message": message}


def _orphans_stop(nodes: dict[str, Node]) -> None:
    """Stop what nodes still run though it has ended for us: a node came back after its job went on elsewhere."""
    for node in nodes.values():
        if node.state == NodeState.DOWN:
            continue
        for item in node.running:
            rows = JobAttempt.objects.filter(job_id=item["job_id"], number=item["token"], ended_at=None)
            attempt = rows.only("plan", "width").first()
            if attempt is None or node.name in unheard_nodes(attempt):
                task_send("node.stop", [item["job_id"], item["token"], "cancel"], queue=node_queue(node.name))


def _allocations_free() -> None:
    """Free devices whose attempt has ended. `attempt_end` does both at once; this keeps the promise after repairs."""
    Allocation.objects.filter(attempt__ended_at__isnull=False).delete()
    holding = [state.value for state in HAS_ATTEMPT]
    stuck = Job.objects.filter(state__in=holding).exclude(attempts__ended_at=None)
    for job in stuck:
        _log.error("job %s is %s without an open attempt", job.pk, job.state)

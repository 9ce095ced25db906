"""Tick: show the queue, what runs and the pool to the pure scheduler, carry its decision out.

Of several control processes one decides at a time (`turn`). Even without that nothing could be given twice: a job is
claimed by compare-and-set on its state and attempt number, a device by the unique row of its allocation.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict

import redis
from django.db import IntegrityError, transaction
from django.utils import timezone

from harness.broker import client, task_send
from harness.database import DATABASE_AWAY
from harness.jobs.admission import promise_give, promises_catch_up, unpromised_start
from harness.jobs.control.ahead import data_foreseen, data_send_ahead
from harness.jobs.control.deciding import decide
from harness.jobs.control.disk import OnDisk, disk_read
from harness.jobs.control.expectations import expectations_write
from harness.jobs.control.held import any_planned
from harness.jobs.control.losses import placed_words
from harness.jobs.control.plans import device_ranks, plan_make
from harness.jobs.control.saved import place_at
from harness.jobs.control.streams import DECIDED_BY_KEY, reader_name
from harness.jobs.control.telemetry import ranks_forget
from harness.jobs.control.views import Facts, facts_read
from harness.jobs.control.widths import Answer, width_change
from harness.jobs.failures import failure_of
from harness.jobs.models import Allocation, Job, JobAttempt
from harness.jobs.services import stop_send
from harness.jobs.states import job_move, job_note
from harness.pool.models import Device, NodeState, PoolSetting
from harness.pool.services import node_queue
from harness.pool.turn import (
    Turn,
    TurnKeeper,
    TurnLost,
    turn_again,
    turn_drop,
    turn_end,
    turn_hold,
    turn_take,
)
from scheduler.types import Change, ChangeKind, Decision, Option, Placement
from worker.events import FailureCode
from worker.states import JobState

MOST_ROUNDS = 10
"""Of one tick, where others keep asking for one: then it is the next tick's turn, in whatever process."""
_log = logging.getLogger(__name__)


def tick() -> int:
    """Start, pause and resize what the policy says, note why the rest waits; return how many were started."""
    if not any_planned():  # at rest the pool is not read every few seconds, and nothing is written
        return 0
    promises_catch_up()
    turn, started = turn_take(), 0
    for _round in range(MOST_ROUNDS):
        if turn is None:
            return started
        keeper = TurnKeeper(turn)
        try:
            with keeper:
                facts = facts_read()
                decision = decide(facts) if facts.views else None
                disks = _disks(facts, decision) if decision else {}
            if decision:
                started += _carry_out_all(keeper.turn, facts, disks, decision)
                _decided_tell()
                _data_ahead(facts, decision)
            if turn_end(keeper.turn):
                return started
        except TurnLost:
            _log.info("the queue changed while it was looked at: deciding again")
        except BaseException:
            with suppress(*DATABASE_AWAY):  # the turn then ends by itself, and what happened is told
                turn_drop(keeper.turn)
            raise
        turn = turn_again(keeper.turn)
    if turn is not None:
        turn_drop(turn)
    return started


def _decided_tell() -> None:
    """Note for people which process decided last; it does not matter where the broker is away."""
    with suppress(redis.RedisError):
        client().set(DECIDED_BY_KEY, f"{time.time():.3f} {reader_name()}")


def _disks(facts: Facts, decision: Decision) -> dict[str, OnDisk]:
    """What lies on disk for each job that is to start; one whose disk does not answer starts in a later tick."""
    found = {}
    for placement in decision.placements:
        if _starts(facts, placement):
            try:
                found[placement.job_id] = disk_read(facts.jobs[placement.job_id])
            except OSError as error:
                _log.warning("job %s is not started yet, its files cannot be looked at: %s", placement.job_id, error)
    return found


def _carry_out_all(turn: Turn, facts: Facts, disks: Mapping[str, OnDisk], decision: Decision) -> int:
    """All of it in one transaction, if the turn is still ours; return how many jobs were started."""
    with transaction.atomic():
        turn_hold(turn)
        for change in decision.changes:
            _change(facts, decision, change)
        for job_id in sorted(decision.promised):
            promise_give(facts.jobs[job_id])
        started = {start.job_id for start in decision.placements if _start(facts, disks, start)}
        expectations_write(facts, decision, started)
    return len(started)


def _data_ahead(facts: Facts, decision: Decision) -> None:
    """Have data copied to where jobs are going to start; of those that start now the attempt sees to it itself."""
    starting = {start.job_id for start in decision.placements if _starts(facts, start)}
    data_send_ahead(data_foreseen(facts, decision, starting))


def _starts(facts: Facts, placement: Placement) -> bool:
    """Whether its devices are all free; others start in the tick after those before them have left."""
    is_free = not placement.waits_for and not facts.coming.intersection(placement.device_ids)
    return is_free and placement.job_id in facts.queued


def _start(facts: Facts, disks: Mapping[str, OnDisk], placement: Placement) -> bool:
    disk = disks.get(placement.job_id)
    return disk is not None and _carry_out(facts.jobs[placement.job_id], placement, facts.setting, disk)


def _change(facts: Facts, decision: Decision, change: Change) -> None:
    """Have a running job go on with other devices while it runs, where it can; else save itself and leave them all.

    Then it waits again by itself, at its old place, and what others took meanwhile is decided when it does.
    """
    job = facts.jobs[change.job_id]
    if change.kind == ChangeKind.RESIZE and _within(facts, decision, change) is not Answer.IMPOSSIBLE:
        return
    if change.kind == ChangeKind.RESIZE and change.option is not None:
        text = f"The scheduler pauses it to change its devices. {change.reason}"
    else:
        text = f"The scheduler pauses it; it keeps its place. {change.reason}"
    if change.room_for:
        text += f" What starts instead is {facts.name_for(job, change.room_for)}."
    moved = job_move(
        job.pk,
        JobState.RUNNING,
        JobState.PAUSING,
        if_token=job.token,
        message=text,
        data={"scheduler": str(change.kind), "reason": change.reason},
        preempted=True,
    )
    if moved is not None:
        stop_send(job.pk, "pause")


def _within(facts: Facts, decision: Decision, change: Change) -> Answer:
    """Try to carry a change of devices out within the attempt."""
    job = facts.jobs[change.job_id]
    waiting: list[Placement | Change] = [*decision.placements, *decision.changes]
    takers = [facts.name_for(job, other.job_id) for other in waiting if change.job_id in other.waits_for]
    return width_change(job, change, takers)


def _carry_out(job: Job, placement: Placement, setting: PoolSetting, disk: OnDisk) -> bool:
    """Claim job and devices in one transaction, then tell the node. Returns False where another was faster."""
    by_id = Device.objects.select_related("node").in_bulk(list(placement.device_ids))
    if len(by_id) != len(placement.device_ids) or not all(map(_takes_work, by_id.values())):
        return False
    devices = [by_id[device_id] for device_id in placement.device_ids]
    token = job.token + 1
    try:
        with transaction.atomic():
            attempt = _claim(job, token, devices, setting, placement.option, disk)
            if attempt is None:
                return False
            transaction.on_commit(lambda: start_send(attempt), robust=True)
    except IntegrityError:
        _log.info("job %s: a device was taken meanwhile", job.pk)
        return False
    except DATABASE_AWAY:
        raise
    except Exception:
        _log.exception("job %s cannot be planned", job.pk)
        _unplannable(job)
        return False
    return True


def _takes_work(device: Device) -> bool:
    """It may have gone, or its node been drained, since the facts were read."""
    return device.away_since is None and device.node.state == NodeState.UP


def _unplannable(job: Job) -> None:
    """A job that no plan can be made for fails, and the others go on: it would hold its devices back forever."""
    body = {"code": str(FailureCode.START_FAILED), "message": "This job could not be planned."}
    told = failure_of(body, fallback=FailureCode.START_FAILED)
    job_move(job.pk, JobState.QUEUED, JobState.FAILED, if_token=job.token, message=told.message, failure=told.to_dict())


def _claim(
    job: Job, token: int, devices: list[Device], setting: PoolSetting, option: Option, disk: OnDisk
) -> JobAttempt | None:
    plan = plan_make(job, token=token, devices=devices, backend=setting.backend, disk=disk, option=option)
    moved = job_move(
        job.pk,
        JobState.QUEUED,
        JobState.PLACED,
        if_token=job.token,
        token=token,
        message=placed_words(job, plan.nodes),
        data={"nodes": list(plan.nodes), "devices": [f"{device.kind}:{device.index}" for device in devices]},
        placed_at=timezone.now(),
        **unpromised_start(job),
        **place_at(job, plan.resume_from),
    )
    if moved is None:
        return None
    if plan.note:
        job_note(job, "note", plan.note)
    ranks_forget(job)  # those of the attempt before
    attempt = JobAttempt.objects.create(
        job=job, number=token, plan=plan.to_dict(), world_size=plan.world_size, option=asdict(option)
    )
    Allocation.objects.bulk_create(
        Allocation(device=device, job=job, attempt=attempt, rank=rank)
        for device, rank in zip(devices, device_ranks(plan, devices), strict=True)
    )
    return attempt


def start_send(attempt: JobAttempt) -> bool:
    """Send the start message to every node of the plan and note when; unsent ones the reconciler sends."""
    nodes = sorted(attempt.run_plan.nodes)
    answers = [task_send("node.start", [attempt.plan], queue=node_queue(node), expires_s=60) for node in nodes]
    sent = all(answers)
    if sent:
        JobAttempt.objects.filter(pk=attempt.pk).update(sent_at=timezone.now(), sends=attempt.sends + 1)
    return sent

"""A run that becomes wider or narrower while it runs: its ranks come and go within the attempt.

`JobAttempt.width` is what is wanted, the event WIDTH of its node is what is. Devices are leased in the transaction
that asks for ranks on them, and given back in the one that takes in the word that these ranks have ended; in between
the attempt holds both the old and the new ones. Wishes are numbered, sent again until they are answered, and replaced
by newer ones, never taken back; an answer counts for the newest alone. So whatever is killed, and whenever, no rank
runs on a device that is not leased to its attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from harness.broker import publish_pool, task_send, task_send_on_commit
from harness.jobs.control.parts import is_spread, nodes_of
from harness.jobs.control.telemetry import ranks_forget
from harness.jobs.control.usage import uses_write
from harness.jobs.control.width_request import WidthRequest, width_of, width_request_read
from harness.jobs.models import Allocation, Job, JobAttempt
from harness.jobs.services import stop_send
from harness.jobs.states import job_move, job_note
from harness.pool.models import Device, DeviceKind
from harness.pool.services import node_queue
from scheduler.types import Change, Option
from worker.events import Event
from worker.states import JobState

NARROWER_LIMIT = timedelta(seconds=180)
"""A run that has not given its devices back by then, somebody needing them, is paused as a whole."""
_log = logging.getLogger(__name__)


class Answer(Enum):
    """What becomes of a change of devices."""

    ASKED = auto()
    LATER = auto()
    """Not now: what it would take is not free yet, or the run has just changed. The next decision says anew."""
    IMPOSSIBLE = auto()
    """Not within the attempt: it has to save itself and start again."""


def width_change(job: Job, change: Change, takers: Sequence[str]) -> Answer:
    """Ask a running job to go on with the devices of a change, in the same attempt. Call it in a transaction.

    `takers`: who needs the others, by the names that those who see the job may know.
    """
    option, attempt = change.option, _open(job)
    if attempt is None:
        return Answer.LATER
    if option is None or not _may(attempt, option):
        return Answer.IMPOSSIBLE
    if change.waits_for:
        return Answer.LATER
    held = {row.device_id: row.rank for row in Allocation.objects.filter(attempt=attempt)}
    devices = list(Device.objects.select_related("node").filter(pk__in=change.device_ids))
    kept = [device for device in devices if device.pk in held]
    fresh = [device for device in devices if device.pk not in held]
    if not kept or len(devices) != option.count or not _alike(attempt, devices):
        return Answer.IMPOSSIBLE
    spare = [slot for slot in range(attempt.run_plan.most) if slot not in held.values()]
    if len(fresh) > len(spare):
        return Answer.LATER  # ranks that leave have not ended yet
    taken = dict(zip((device.pk for device in fresh), spare, strict=False))
    slots = tuple(sorted([held[device.pk] for device in kept] + list(taken.values())))
    fewer = len(width_of(attempt)) - len(slots)
    if slots == width_of(attempt):
        return Answer.LATER
    try:
        with transaction.atomic():
            Allocation.objects.bulk_create(
                Allocation(device=device, job=job, attempt=attempt, rank=taken[device.pk]) for device in fresh
            )
            _want(attempt, option, slots, _why(change, takers, fewer))
    except IntegrityError:
        _log.info("job %s: a device was taken meanwhile", job.pk)
        return Answer.LATER
    return Answer.ASKED


def _open(job: Job) -> JobAttempt | None:
    """The running attempt, locked: whoever ends it waits until its new devices are written, or was before us."""
    runs = Job.objects.select_for_update().filter(pk=job.pk, state=JobState.RUNNING, token=job.token)
    if runs.values_list("pk").first() is None:
        return None
    return JobAttempt.objects.select_for_update().filter(job=job, number=job.token, ended_at=None).first()


def _may(attempt: JobAttempt, option: Option) -> bool:
    """Whether its gang takes ranks in and lets them go, and may have so many."""
    most, least = attempt.run_plan.most, attempt.run_plan.least
    return bool(most) and least <= option.count <= most and option.kind == DeviceKind.CPU and not is_spread(attempt)


def _alike(attempt: JobAttempt, devices: Sequence[Device]) -> bool:
    """Whether all devices are like those it began with: a process is made for its place, not for a device."""
    first = attempt.run_plan.ranks[0]
    return all((device.node.name, device.slowdown) == (first.node, first.slowdown) for device in devices)


def _why(change: Change, takers: Sequence[str], fewer: int) -> str:
    """What people read behind the new number of ranks. `fewer`: than before; below 0 they are more."""
    names = list(dict.fromkeys(takers)) if fewer > 0 else []
    if not names:
        return f". {change.reason}".rstrip()
    named = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    return f": {'a core was' if fewer == 1 else f'{fewer} cores were'} needed by {named}."


def _want(attempt: JobAttempt, option: Option, slots: tuple[int, ...], why: str) -> None:
    before = width_request_read(attempt.width)
    request = WidthRequest(
        number=before.number + 1 if before else 1,
        slots=slots,
        asked_at=timezone.now().isoformat(),
        changes=before.changes if before else 0,
        why=why,
    )
    attempt.width, attempt.option = request.to_dict(), asdict(option)
    JobAttempt.objects.filter(pk=attempt.pk).update(width=attempt.width, option=attempt.option)
    for node in nodes_of(attempt):
        task_send_on_commit("node.resize", _message(attempt, request), queue=node_queue(node))


def _message(attempt: JobAttempt, request: WidthRequest) -> list[Any]:
    return [attempt.job_id, attempt.number, request.number, list(request.slots)]


def width_take(job: Job, attempt: JobAttempt, events: Sequence[Event]) -> None:
    """Take in what a node says of the width: give back the devices whose ranks have ended, and tell people."""
    for event in events:
        row = JobAttempt.objects.select_for_update().get(pk=attempt.pk)
        request = width_request_read(row.width)
        ranks = event.data.get("ranks")
        if request is None or request.done or row.ended_at or event.data.get("number") != request.number:
            continue  # of an older request, or told again
        if not isinstance(ranks, list) or not set(request.slots).issuperset(ranks):
            _log.warning("job %s: attempt %s goes on with ranks %s, not %s", job.pk, row.number, ranks, request.slots)
            continue
        _settle(job, row, request, len(ranks), event.data.get("step"))


def _settle(job: Job, attempt: JobAttempt, request: WidthRequest, ranks: int, step: Any) -> None:
    held = list(Allocation.objects.filter(attempt=attempt).values_list("rank", flat=True))
    gone = sorted(set(held) - set(request.slots))
    if gone:
        uses_write(attempt, timezone.now(), ranks=gone)
        Allocation.objects.filter(attempt=attempt, rank__in=gone).delete()
    done = replace(request, done=True, changes=request.changes + 1)
    JobAttempt.objects.filter(pk=attempt.pk).update(width=done.to_dict())
    most = attempt.run_plan.most
    ranks_forget(job, request.slots if is_spread(attempt) else range(ranks))  # on one node they count from 0 again
    words = f"{ranks} ranks again" if ranks == most else f"Continues with {ranks} of {most} ranks"
    told = {"ranks": ranks, "most": most, "changes": done.changes}
    job_note(job, "note", words + request.why, data={"step": step, "width": told})
    publish_pool("released", {"job_id": job.pk, "token": attempt.number})
    task_send_on_commit("control.tick")


def width_again(attempt: JobAttempt, now: datetime) -> None:
    """Ask a node again that has not answered; where somebody waits too long for the devices, pause the whole run."""
    request = width_request_read(attempt.width)
    if request is None or request.done:
        return
    leaving = Allocation.objects.filter(attempt=attempt).exclude(rank__in=request.slots)
    if abs(now - datetime.fromisoformat(request.asked_at)) > NARROWER_LIMIT and leaving.exists():
        _pause(attempt)
        return
    for node in nodes_of(attempt):
        task_send("node.resize", _message(attempt, request), queue=node_queue(node), expires_s=10)


def _pause(attempt: JobAttempt) -> None:
    text = "No rank of it could be let go alone for too long: the scheduler pauses it; it keeps its place."
    data = {"scheduler": "pause", "reason": text}
    old, new = JobState.RUNNING, JobState.PAUSING
    if job_move(attempt.job_id, old, new, if_token=attempt.number, message=text, data=data, preempted=True):
        stop_send(attempt.job_id, "pause")

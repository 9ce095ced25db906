"""An elastic attempt over several nodes loses one of them and goes on: what that node held is given back.

Its ranks settle among themselves that they go on (`worker.elastic.gang`); control hears of the lost node as ever, by
its own word or by its silence. Then its devices are freed, and nothing that it says counts any more.
"""

from __future__ import annotations

from dataclasses import asdict, replace

from django.db import transaction
from django.utils import timezone

from harness.broker import publish_pool, task_send_on_commit
from harness.jobs.control.clock import moment_within
from harness.jobs.control.parts import first_lost_at, left_nodes, nodes_of, ranks_on
from harness.jobs.control.telemetry import ranks_forget
from harness.jobs.control.usage import uses_write
from harness.jobs.control.width_request import WidthRequest, width_of, width_request_read
from harness.jobs.models import Allocation, Job, JobAttempt
from harness.jobs.node_ends import NodeEnd
from harness.jobs.options import option_narrowed, option_read
from harness.jobs.states import job_note
from scheduler.types import Option
from worker.events import Outcome


def node_leave(attempt: JobAttempt, end: NodeEnd) -> bool:
    """Go on without a node whose part has ended so; False where the attempt cannot, and nothing was done."""
    node = end.node
    with transaction.atomic():
        # the job before its attempt, as everybody who locks both
        job = Job.objects.select_for_update().get(pk=attempt.job_id)
        row = JobAttempt.objects.select_for_update().get(pk=attempt.pk)
        if end.has_saved or not _can_do_without(row, node, end.outcome):
            return False  # where it saved all ranks have left, on whichever node: nobody is there to go on
        now, ranks = timezone.now(), ranks_on(row, node)
        slots = tuple(slot for slot in width_of(row) if slot not in ranks)
        # what it held did nothing for the run since it ended
        ended_at = now if end.ended_s is None else moment_within(end.ended_s, row.created_at, now)
        held = Allocation.objects.filter(attempt=row)
        there = held.filter(device__node__name=node)  # also a device that got no rank
        uses_write(row, ended_at, ranks=set(there.values_list("rank", flat=True)))
        there.delete()
        before = width_request_read(row.width)
        changes = before.changes + 1 if before else 1
        request = WidthRequest(number=0, slots=slots, asked_at=now.isoformat(), done=True, changes=changes)
        option = option_read(row.option)
        attempt.width = request.to_dict()
        attempt.option = asdict(_option_left(option, held.count())) if option else row.option
        JobAttempt.objects.filter(pk=row.pk).update(width=attempt.width, option=attempt.option)
        ranks_forget(job, slots)
        told = {"ranks": len(slots), "most": row.world_size, "changes": changes}
        how = "shut down" if end.is_stopped else "lost"
        text = f"Continues with {len(slots)} of {row.world_size} ranks: the node {node} was {how}."
        job_note(job, "note", text, data={"step": job.step, "width": told})
        publish_pool("released", {"job_id": job.pk, "token": row.number})
        task_send_on_commit("control.tick")
    return True


def _option_left(option: Option, devices: int) -> Option:
    """With so many of its devices, each of which has the memory that it had."""
    return replace(option_narrowed(option, devices), memory_bytes=-(-option.memory_bytes * devices // option.count))


def first_lose(attempt: JobAttempt, end: NodeEnd) -> None:
    """Note that the first node of an elastic attempt was lost: nothing that it says counts any more.

    The attempt ends; before that the others may save what they hold (`rescue`). In the transaction of `node_end`.
    """
    row = JobAttempt.objects.select_for_update().get(pk=attempt.pk)
    if end.node != nodes_of(row)[0] or not _is_survivable(row, end.outcome):
        return
    now = timezone.now().isoformat()
    before = width_request_read(row.width) or WidthRequest(number=0, slots=width_of(row), asked_at=now, done=True)
    attempt.width = replace(before, first_lost_at=now).to_dict()
    JobAttempt.objects.filter(pk=row.pk).update(width=attempt.width)


def _is_survivable(attempt: JobAttempt, outcome: Outcome) -> bool:
    """Only a loss is, by a run that may do without some of its ranks and has begun to train."""
    open_now = attempt.running_at is not None and attempt.released_at is None and attempt.ended_at is None
    return attempt.run_plan.least > 0 and open_now and outcome is Outcome.LOST


def _can_do_without(attempt: JobAttempt, node: str, outcome: Outcome) -> bool:
    """No attempt goes on without the node that writes for all."""
    others = nodes_of(attempt)[1:]
    if first_lost_at(attempt) or node not in others or node in left_nodes(attempt):
        return False
    left = set(width_of(attempt)) - ranks_on(attempt, node)
    return _is_survivable(attempt, outcome) and len(left) >= attempt.run_plan.least

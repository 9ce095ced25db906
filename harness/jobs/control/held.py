"""Which devices are held, by whom, and which of them will soon be given back; who waits and runs then. Reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from harness.jobs.control.width_request import width_request_read
from harness.jobs.models import Allocation, Job, JobAttempt
from harness.jobs.options import option_read, with_saved_step
from scheduler.kinds import real_name
from scheduler.types import Option
from worker.states import JobState

_DEFERRED = ("suggestions", "notes", "dataset__profile")
_READS_MOST = 3
"""What goes on changing while it is read is planned with as it was seen last."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """A device that an attempt holds."""

    device_id: str
    node_id: str
    node_name: str
    job_id: str
    option: Option | None
    """What the attempt runs as, or is about to; None where nobody said."""
    since: datetime
    changed_at: datetime
    """When it last began, or was asked to become narrower or wider."""
    leaves: bool = False
    """The run becomes narrower: it gives this one back when its rank has ended."""


def held_read() -> list[Held]:
    """All devices that are held, in rank order.

    As plain values: a pool has thousands, and rows made into objects would be most of the time of a decision.
    """
    columns = ("device_id", "device__node_id", "device__node__name", "job_id", "attempt_id", "rank")
    rows = list(Allocation.objects.order_by("rank", "pk").values_list(*columns))
    attempts = JobAttempt.objects.filter(pk__in={row[4] for row in rows})
    told = {
        attempt_id: (option_read(option), since, width_request_read(width))
        for attempt_id, option, since, width in attempts.values_list("pk", "option", "created_at", "width")
    }
    return [
        Held(
            device_id=device_id,
            node_id=node_id,
            node_name=node_name,
            job_id=job_id,
            option=option,
            since=since,
            changed_at=datetime.fromisoformat(request.asked_at) if request else since,
            leaves=request is not None and not request.done and rank not in request.slots,
        )
        for device_id, node_id, node_name, job_id, attempt_id, rank in rows
        if attempt_id in told  # else it has just given them back
        for option, since, request in [told[attempt_id]]
    ]


def any_planned() -> bool:
    """Whether any job waits or runs that `rows_read` may give: else there is nothing to decide."""
    planned = [JobState.QUEUED, JobState.PLACED, JobState.RUNNING, JobState.PAUSING]
    return Job.objects.filter(state__in=planned).exists()


def rows_read(due: Q) -> tuple[list[Held], list[Job], list[Job]]:
    """(what is held, who of those `due` waits, who runs), each asked for by itself: all again where a job began or
    ended in between.

    What is held is read first: a job that gives it back meanwhile waits again, and its devices count as taken.
    """
    rows = with_saved_step(Job.objects.select_related("dataset", "project", "weights").defer(*_DEFERRED))
    # Who is being cancelled, or paused by a person, gives its devices back and is not planned with.
    runs = Q(state__in=[JobState.PLACED, JobState.RUNNING]) | Q(state=JobState.PAUSING, preempted=True)
    for _ in range(_READS_MOST):
        held = held_read()
        queued, busy = list(rows.filter(due, state=JobState.QUEUED, deleted_at=None)), list(rows.filter(runs))
        holders, waiting = {one.job_id for one in held}, {job.pk for job in queued}
        if all(job.pk in holders and job.pk not in waiting for job in busy):
            break
    found = {job.pk for job in busy if job.pk in holders}
    return held, [job for job in queued if job.pk not in found], busy


def ending_ids() -> frozenset[str]:
    """Ids of jobs that are being cancelled, or paused by a person: what they hold comes free in a moment."""
    told = Q(state=JobState.CANCELLING) | Q(state=JobState.PAUSING, preempted=False)
    return frozenset(Job.objects.filter(told).values_list("pk", flat=True))


def names_at_start(holding: Sequence[Held], names: Mapping[str, str]) -> dict[str, str]:
    """Names of devices, those that are held as they were when their runs began: a declaration stops none of them."""
    found, changed = dict(names), []
    wanted: dict[str, Counter[str]] = {}
    for one in holding:
        if one.option is None or not (one.option.model_name or one.option.parts):
            continue  # any model would do
        left = wanted.setdefault(one.job_id, Counter(dict(one.option.by_model)))
        name = names.get(one.device_id, "")
        if left[name] <= 0:
            changed.append(one)
        left[name] -= 1
    for one in changed:
        left, like = wanted[one.job_id], real_name(names.get(one.device_id, ""))[0]
        was = next((name for name, count in left.items() if count > 0 and real_name(name)[0] == like), None)
        if was is not None:
            found[one.device_id] = was
            left[was] -= 1
    return found

"""What the forms of the queue ask for: a move or a priority, to look at first or to carry out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from harness.accounts.models import User
from harness.errors import Invalid
from harness.jobs.consequences import move_consequences, priority_consequences, shift_consequences
from harness.jobs.drain import Affected
from harness.jobs.models import Job
from harness.jobs.queue_order import job_reorder, job_shift
from harness.jobs.queueing import job_priority_set
from harness.jobs.selectors import job_get

_SHIFTS = {"first": "to the front", "up": "one place forward", "down": "one place back", "last": "to the end"}


@dataclass(frozen=True, kw_only=True)
class QueueWish:
    """A change of the order that an admin asks for."""

    job: Job
    field: str
    value: str
    """As the form has them: what was looked at is carried out with the same."""
    look: Callable[[], tuple[Affected, ...]]
    """Who would wait longer or finish sooner; changes nothing."""
    act: Callable[[], Any]
    condition: str
    """`NAME went one place forward`: after an *if*."""
    done: str
    verb: str
    """On the button that carries it out."""


def queue_wish(*, user: User, job: Job, given: Mapping[str, str]) -> QueueWish:
    """`to` one of the shifts, `before` another job, or a `priority`. Raises `Invalid`, `NotFound`."""
    if (to := given.get("to", "")) in _SHIFTS:
        return QueueWish(
            job=job, field="to", value=to, verb="Move it",
            look=partial(shift_consequences, user=user, job=job, to=to),
            act=partial(job_shift, user=user, job=job, to=to),
            condition=f"{job.name} went {_SHIFTS[to]}", done=f"{job.name} goes {_SHIFTS[to]}.",
        )  # fmt: skip
    if given.get("before"):
        before = job_get(user=user, job_id=given["before"])
        return QueueWish(
            job=job, field="before", value=before.pk, verb="Move it",
            look=partial(move_consequences, user=user, job=job, before=before),
            act=partial(job_reorder, user=user, job=job, before=before),
            condition=f"{job.name} went before {before.name}", done=f"{job.name} goes before {before.name}.",
        )  # fmt: skip
    priority = whole(given.get("priority", ""), "priority")
    return QueueWish(
        job=job, field="priority", value=str(priority), verb="Set it",
        look=partial(priority_consequences, user=user, job=job, priority=priority),
        act=partial(job_priority_set, user=user, job=job, priority=priority),
        condition=f"{job.name} had priority {priority}", done="Saved.",
    )  # fmt: skip


def whole(text: str, field: str) -> int:
    """A whole number that was typed. Raises `Invalid`."""
    try:
        return int(text)
    except ValueError as error:
        said = f"{text[:20]!r} is not a whole number." if text else "Enter a whole number."
        raise Invalid(said, field=field) from error

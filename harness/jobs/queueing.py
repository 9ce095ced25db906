"""The queue as people see it, and the priorities that admins give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from harness.accounts.access import require_admin, visible_projects
from harness.accounts.audit import audit_write
from harness.accounts.models import User
from harness.errors import Conflict, Invalid
from harness.jobs.models import Job
from harness.jobs.options import option_read, option_words, options_of, with_saved_step
from harness.jobs.outlook import outlook
from harness.jobs.queue_order import neighbours, queue_changed, shown_order
from harness.jobs.quota_use import borrowers
from harness.jobs.starts import reads_apart, start_times
from harness.jobs.states import job_note
from harness.pool.models import Reservation
from harness.pool.turn import facts_change
from scheduler.placing.obstacles import names_purpose
from scheduler.types import Option, WaitCode
from worker.states import HOLDS_DEVICES, JobState

PRIORITY_MAX = 100
_SERVED = [state.value for state in (JobState.QUEUED, JobState.PAUSED, *HOLDS_DEVICES)]
_DEFERRED = ("suggestions", "notes", "last_values", "taken", "failure", "promise")


@dataclass(frozen=True, kw_only=True)
class QueueRow:
    """One job that waits or runs. Of projects the person does not see only place and devices are told."""

    job: Job | None
    """None: of a project that the person does not see."""
    state: str
    position: int | None
    devices: str
    """Wanted, or held: `2 GPUs`; with several ways to run it `1 to 4 CPU cores`."""
    priority: int
    waiting_text: str
    expected_start_at: datetime | None
    """As `starts.start_times`, with its range while it waits."""
    expected_start_low_at: datetime | None
    expected_start_high_at: datetime | None
    expected_finish_at: datetime | None
    expected_low_at: datetime | None
    expected_high_at: datetime | None
    reserved_until: datetime | None
    """Until about then the devices are kept that it waits for, where it has no expected times; None: they are not."""
    idle_s: float | None
    """For how long it has made no progress, as `expectations.idle_s`: it has no expected times then. While control
    stands still nobody knows it, nor when a run ends (`outlook`)."""
    promised_at: datetime | None
    slack_s: float | None
    warning: str
    borrows: bool
    """Its devices are, or would be, borrowed: it may be put back when the lender needs them."""
    can_go_up: bool = False
    """An admin may move it before another job."""
    can_go_down: bool = False

    @property
    def start_spreads(self) -> bool:
        """Whether the two ends of the range of its start read differently."""
        low, high = self.expected_start_low_at, self.expected_start_high_at
        return low is not None and high is not None and reads_apart(low, high)


def queue_rows(*, user: User, mine: bool = False) -> tuple[list[QueueRow], list[QueueRow]]:
    """(what waits, in the order it is served; what holds devices, the first to be done first). `mine`: own jobs."""
    seen = set(visible_projects(user).values_list("pk", flat=True))
    rows = Job.objects.select_related("project", "owner").defer(*_DEFERRED)
    waiting = sorted(with_saved_step(rows.filter(state=JobState.QUEUED, deleted_at=None)), key=shown_order)
    busy = rows.filter(state__in=[state.value for state in HOLDS_DEVICES]).prefetch_related("attempts")
    running = sorted(busy, key=lambda job: (job.expected_finish_at is None, job.expected_finish_at, job.pk))
    borrow = borrowers(job for job in (*waiting, *running) if job.project_id in seen)
    movable = neighbours(waiting)
    reserved = _reserved_now()
    return (
        [
            replace(
                _row(job, place, job.project_id in seen, job.pk in borrow, reserved), can_go_up=up, can_go_down=down
            )
            for place, (job, (up, down)) in enumerate(zip(waiting, movable, strict=True), start=1)
            if not mine or job.owner_id == user.pk
        ],
        [
            _row(job, None, job.project_id in seen, job.pk in borrow)
            for job in running
            if not mine or job.owner_id == user.pk
        ],
    )


def job_reserved_until(job: Job) -> datetime | None:
    """Until about when the devices are kept that a waiting job needs, where it has no expected times."""
    return _reserved_until(job, _reserved_now()) if job.state == JobState.QUEUED else None


def _reserved_now() -> list[Reservation]:
    now = timezone.now()
    return list(Reservation.objects.filter(cancelled_at=None, starts_at__lte=now, ends_at__gt=now))


def _reserved_until(job: Job, reserved: Sequence[Reservation]) -> datetime | None:
    """Nothing is planned after what is open-ended, such as a calibration: then its expected end is all there is."""
    if job.expected_finish_at is not None or job.waiting_code != WaitCode.RESERVED:
        return None
    named = (row.told_end for row in reserved if names_purpose(job.waiting_text, row.purpose))
    return max(named, default=None)


def _row(job: Job, place: int | None, visible: bool, borrows: bool, reserved: Sequence[Reservation] = ()) -> QueueRow:
    start, told = start_times(job), outlook(job)
    return QueueRow(
        job=job if visible else None,
        state=job.state,
        position=place,
        devices=devices_words(job),
        priority=job.priority,
        waiting_text=job.waiting_text if visible else "",
        expected_start_at=start["expected_start_at"],
        expected_start_low_at=start["expected_start_low_at"],
        expected_start_high_at=start["expected_start_high_at"],
        expected_finish_at=told["expected_finish_at"],
        expected_low_at=told["expected_low_at"],
        expected_high_at=told["expected_high_at"],
        reserved_until=_reserved_until(job, reserved) if visible else None,
        idle_s=told["idle_s"],
        promised_at=job.promised_at if visible else None,
        slack_s=told["slack_s"] if visible else None,
        warning=job.warning if visible else "",
        borrows=borrows,
    )


def devices_words(job: Job) -> str:
    """Held devices of a job that runs; else all that it could run on."""
    if JobState(job.state) in HOLDS_DEVICES:
        newest = max(job.attempts.all(), key=lambda attempt: attempt.number, default=None)
        held = option_read(newest.option) if newest else None
        if held is not None:
            return option_words(held)
    return options_words(options_of(job))


def options_words(options: Sequence[Option]) -> str:
    """`2 GPUs`, `1 to 4 CPU cores`, `1 to 4 CPU cores or 1 GPU`."""
    told = []
    for kind in dict.fromkeys(option.kind for option in options):
        of_kind = sorted((option for option in options if option.kind == kind), key=lambda option: option.count)
        least, most = of_kind[0], of_kind[-1]
        told.append(option_words(most) if least.count == most.count else f"{least.count} to {option_words(most)}")
    return " or ".join(told)


def priority_check(job: Job, priority: int) -> None:
    """Raises `Invalid` for what cannot be a priority, `Conflict` where the job has none."""
    if isinstance(priority, bool) or not -PRIORITY_MAX <= priority <= PRIORITY_MAX:
        raise Invalid(f"A priority is a whole number from {-PRIORITY_MAX} to {PRIORITY_MAX}.", field="priority")
    if job.state not in _SERVED:
        raise _not_served(job)


def _not_served(job: Job) -> Conflict:
    hint = "Submit it first." if job.state == JobState.DRAFT else "Clone it to run it again."
    return Conflict("Only a job that waits, runs or pauses has a priority.", hint=hint)


def job_priority_set(*, user: User, job: Job, priority: int) -> Job:
    """Have a job served before those of a lower priority, -100 to 100. Raises `Forbidden`, `Invalid`, `Conflict`."""
    require_admin(user)
    priority_check(job, priority)
    with transaction.atomic():
        facts_change()
        if not Job.objects.filter(pk=job.pk, state__in=_SERVED).update(priority=priority, rank=0):
            raise _not_served(job)
        job_note(job, "person", f"Priority {priority}", actor=user, data={"priority": priority})
        audit_write(user, "job_priority_set", job.pk, project=job.project, priority=priority)
        queue_changed(job)
    job.refresh_from_db()
    return job

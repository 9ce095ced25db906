"""Admission: whether the finish time that a person wishes can be promised, asked when a job is submitted."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from harness.database import DATABASE_AWAY
from harness.errors import Conflict, Invalid
from harness.jobs.control.data_ways import dataset_of
from harness.jobs.control.views import facts_read, job_view
from harness.jobs.models import Job
from harness.jobs.options import deadline_check, has_estimate, option_words, options_of
from harness.jobs.promises import (
    ASKED_AGAIN,
    AWAITS_ESTIMATE,
    IS_MEASURED,
    PromiseState,
    admitted_at,
    promise_state,
    promise_told,
)
from harness.jobs.states import job_note
from harness.moments import moment_of, moment_words
from harness.pool.models import Quota, Reservation
from harness.pool.turn import facts_change
from scheduler.admit import admit
from scheduler.offers.words import chance_words
from scheduler.pool_view import as_told, open_ended
from scheduler.types import Admission, Reserved
from worker.states import JobState

_log = logging.getLogger(__name__)


def job_admit(job: Job, *, promised: bool = True) -> dict[str, Any]:
    """Fields of the promise; call it in the transaction that queues the job.

    Holds the scheduler's lock until that transaction ends: of two people who ask for the same hour one is refused.
    Without `promised` what cannot be promised is not refused: it is told how probably it is on time.
    Nor is what only a reservation without a known end stands against: it is asked for again when that is over.
    Raises `Invalid` on `budget.deadline` with the earliest finish that can be kept, `Conflict` where the project's
    quota never lets it run.
    """
    facts_change()
    _quota_check(job)
    fields = _no_promise()
    if job.deadline_at is None:
        return fields
    now = timezone.now()
    if job.deadline_at <= now:
        raise Invalid(
            f"The deadline {moment_words(job.deadline_at)} has passed.",
            field="budget.deadline",
            code="deadline_passed",
            hint="Set a later deadline in the spec, or `auto` for none.",
        )
    deadline_check(job.deadline_at, field="budget.deadline")
    if not has_estimate(job):
        return fields | {"promise": promise_told(PromiseState.NO_ESTIMATE, ASKED_AGAIN)}
    found, later = _ask(job, now)
    if found.accepted:
        return fields | _promised(job, found, now)
    if promised and later:
        return fields | {"promise": promise_told(PromiseState.AFTER_RESERVED, later)}
    if promised:
        raise _refused(found)
    text = f"Its deadline is not promised; it will run as soon as possible.{_chance_words(found)}"
    return fields | {"promise": promise_told(PromiseState.NOT_PROMISED, text)}


def job_admit_again(job: Job) -> dict[str, Any]:
    """The same for a job that goes on after a person's pause: what cannot be promised any more is said, not refused."""
    facts_change()
    fields = _no_promise()
    now = timezone.now()
    if job.deadline_at is None or job.deadline_at <= now or not has_estimate(job):
        return fields
    found, later = _ask(job, now)
    if not found.accepted and later:
        return fields | {"promise": promise_told(PromiseState.AFTER_RESERVED, later)}
    if not found.accepted:
        verb = "cannot be" if job.state == JobState.QUEUED else "is no longer"
        text = f"Its deadline {verb} promised. {found.text}{_earliest_words(found)}{_chance_words(found)}"
        return fields | {"promise": promise_told(PromiseState.NOT_PROMISED, text)}
    return fields | _promised(job, found, now)


def promises_catch_up() -> int:
    """Ask again for jobs whose estimate came after they were queued, or what kept their devices is over, and say of
    those whose deadline passed meanwhile that they have no promise; returns how many now have one."""
    kept, now = _kinds_kept_openly(), timezone.now()
    unknown = Job.objects.filter(promise__state__in=[*AWAITS_ESTIMATE, PromiseState.AFTER_RESERVED])
    late = unknown.filter(state=JobState.QUEUED, deleted_at=None, promised_at=None, deadline_at__isnull=False)
    promised = 0
    for job in late.exclude(options=[], deadline_at__gt=now).select_related("project", "dataset"):
        is_after = promise_state(job) == PromiseState.AFTER_RESERVED and job.deadline_at and job.deadline_at > now
        if is_after and kept & {option.kind for option in options_of(job)}:
            continue
        try:
            promised += _catch_up(job)
        except DATABASE_AWAY:
            raise
        except Exception:
            # One that cannot be asked for must not keep the tick from all others.
            _log.exception("cannot ask for a promise of job %s", job.pk)
    return promised


def _catch_up(job: Job) -> bool:
    with transaction.atomic():
        fields = job_admit_again(job)
        if not Job.objects.filter(pk=job.pk, state=JobState.QUEUED).update(**fields):
            return False
        job_note(job, "note", fields["promise"].get("text") or "Its deadline has passed, so it cannot be promised.")
    return fields["promised_at"] is not None


def promise_ask_again(job: Job) -> bool:
    """Ask again for the finish of a waiting job whose estimate is another now; one that is promised stays so.

    Where it still cannot be, that is no event, for it was told before; its page says it by the estimate as it is now.
    Returns whether it is promised from now on.
    """
    if job.state != JobState.QUEUED or job.promised_at is not None or job.deadline_at is None:
        return False
    with transaction.atomic():
        fields = job_admit_again(job)
        waiting = Job.objects.filter(pk=job.pk, state=JobState.QUEUED, promised_at=None)
        if fields["promised_at"] is None:
            # Whoever has not been told yet is told with an event, by `promises_catch_up`.
            told = waiting.filter(promise__state__in=[PromiseState.NOT_PROMISED, PromiseState.AFTER_RESERVED])
            if fields["promise"] and told.update(promise=fields["promise"]):
                job.promise = fields["promise"]
            return False
        if not waiting.update(**fields):
            return False
        job_note(job, "note", f"Its estimate was renewed. {fields['promise']['text']}")
    return True


def unpromised_tell(job: Job, state: PromiseState, why: str = "") -> None:
    """Say of a waiting job without an estimate what becomes of its requested finish; the same is said once."""
    promise = promise_told(state, why)
    waiting = Job.objects.filter(pk=job.pk, state=JobState.QUEUED, promised_at=None, options=[])
    if promise_state(job) != state and waiting.update(promise=promise):
        job.promise = promise
        job_note(job, "note", promise["text"])


def is_being_measured(job: Job) -> bool:
    """Whether a measurement will tell how long it takes."""
    return job.finished_at is None and promise_state(job) in IS_MEASURED


def unpromised_start(job: Job) -> dict[str, Any]:
    """Fields of a job that starts: what is measured of it from now on is the run itself, and nothing is waited for."""
    state, told = promise_state(job), promise_told(PromiseState.STARTED_UNMEASURED)
    if is_being_measured(job):
        return {"promise": told}
    if state in AWAITS_ESTIMATE:  # should it wait once more, it is asked for when there is one
        return {"promise": told | {"state": state.value}}
    if state == PromiseState.AFTER_RESERVED:
        return {"promise": promise_told(PromiseState.NOT_PROMISED, "It started before its finish could be promised.")}
    return {}


def promise_give(job: Job) -> bool:
    """Promise a deadline that could not be promised when the job was submitted.

    Returns False where it has one, or is not any more what the promise was found for: somebody paused it, say.
    """
    rows = Job.objects.filter(pk=job.pk, state=job.state, token=job.token, promised_at=None, deadline_at__isnull=False)
    told = promise_told(PromiseState.PROMISED, "Its deadline can be kept after all and is now promised.")
    promise = told | {"admitted_at": timezone.now().isoformat()}
    if not rows.update(promised_at=F("deadline_at"), promise=promise):
        return False
    job.promised_at, job.promise = job.deadline_at, promise
    job_note(job, "note", promise["text"])
    return True


def _kinds_kept_openly() -> set[str]:
    """Kinds of devices of which some are kept now for what has no known end."""
    now = timezone.now()
    rows = Reservation.objects.filter(open_ended=True, cancelled_at=None, starts_at__lte=now, ends_at__gt=now)
    return {kind for pair in rows.values_list("device__kind", "node__devices__kind") for kind in pair if kind}


def _ask(job: Job, now: datetime) -> tuple[Admission, str]:
    """(whether its finish can be promised; why it may be only later, where just what has no known end is in the way)"""
    facts = facts_read(with_delayed=True)
    view = replace(job_view(job, facts.setting, now), data=facts.ways.of(dataset_of(job)))
    if job.state != JobState.QUEUED:
        # It joins the queue now: a draft of last week, or a job paused for days, has not waited in it.
        view = replace(view, submitted_s=facts.now_s)
    asked = partial(admit, view, facts.views, now_s=facts.now_s, policy=facts.setting.policy, quotas=facts.quotas)
    found = asked(facts.pool)
    kept = () if found.accepted else open_ended(facts.pool, facts.now_s, {option.kind for option in view.options})
    then = asked(as_told(facts.pool, facts.now_s)) if kept else None
    return found, _later_words(kept, then) if then and then.accepted and then.finish_s else ""


def _later_words(kept: Sequence[Reserved], then: Admission) -> str:
    """Why a finish is not promised yet that can be kept if `kept` is over when that is told."""
    purposes = " and ".join(dict.fromkeys(keep.purpose for keep in kept))
    over, finish = moment_of(kept[-1].told_s), moment_of(then.finish_s)
    if over is None or finish is None:
        return ""
    return (
        f"Its finish is not promised yet: {purposes} keeps devices for as long as it takes. When this was asked, that "
        f"was told to be until {moment_words(over)}; then the job ends about {moment_words(finish)}, in time. "
        "Its finish is asked for again when that is over."
    )


def _no_promise() -> dict[str, Any]:
    return {"promised_at": None, "promise": {}}


def _promised(job: Job, found: Admission, now: datetime) -> dict[str, Any]:
    # Where a queue is served, its place goes by when it was promised first.
    since = admitted_at(job) if job.promised_at is not None else None
    finish_at = datetime.fromtimestamp(found.finish_s, UTC).isoformat() if found.finish_s else None
    times = {"finish_at": finish_at, "admitted_at": (since or now).isoformat()}
    return {"promised_at": job.deadline_at, "promise": promise_told(PromiseState.PROMISED, found.text) | times}


def _earliest(found: Admission) -> datetime | None:
    """The earliest finish that can be kept, as people are told it."""
    return moment_of(found.earliest_told_s)


def _earliest_words(found: Admission) -> str:
    earliest = _earliest(found)
    return f" The earliest finish that can be promised is {moment_words(earliest, exact=True)}." if earliest else ""


def _chance_words(found: Admission) -> str:
    """How probably it is on time without a promise; it is kept, and read later."""
    if not found.chance:
        return ""
    return f" When this was asked, its chance of finishing on time was {chance_words(found.chance)}."


def _refused(found: Admission) -> Invalid:
    earliest = _earliest(found)
    return Invalid(
        f"{found.text}{_earliest_words(found)}",
        field="budget.deadline",
        code="deadline_refused",
        hint=" ".join(found.changes_that_would_help) or "Set a later deadline; the draft is kept as it is.",
        details={
            "earliest_finish": earliest.isoformat() if earliest else None,
            "chance": found.chance,
            "changes_that_would_help": list(found.changes_that_would_help),
        },
    )


def _quota_check(job: Job) -> None:
    """Pass unless no option could ever run within the project's quota. Raises `Conflict`."""
    rows = {quota.device_kind: quota for quota in Quota.objects.filter(project=job.project_id, may_borrow=False)}
    options = options_of(job)
    if not rows or any(option.kind not in rows or option.count <= rows[option.kind].devices for option in options):
        return
    least = min(options, key=lambda option: option.count)
    quota = rows[least.kind]
    raise Conflict(
        f"It needs {option_words(least)}; the quota of {job.project.name} is {quota.devices}, without borrowing.",
        field="resources.count",
        code="quota_too_small",
        hint="Take fewer devices or another kind, or ask an admin for a larger quota.",
    )

"""What people are told while they wait and while it runs: place, reason, expected start and finish, shrinking slack."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone

from harness.broker import publish_job
from harness.jobs.control.danger import FARTHEST_S, Expected, danger_note, danger_words, stuck_words
from harness.jobs.control.data_ways import dataset_of
from harness.jobs.control.views import Facts
from harness.jobs.models import Job
from harness.jobs.starts import start_times
from harness.moments import moment_of, moment_words
from scheduler.data_way import Travel
from scheduler.types import Decision, JobView, WaitCode, WaitReason
from worker.memory_words import Phase
from worker.states import HOLDS_DEVICES, JobState

TOLD_AGAIN_S = 5.0
"""An expectation that moves by less, or by less than `TOLD_AGAIN_SHARE` of what is left, is not told again."""
TOLD_AGAIN_SHARE = 0.03
START_TOLD_AGAIN_S = 60.0
"""So much for a start, which is told to the minute: behind a run past its upper end it moves with the clock."""
IDLE_LEAST_S, IDLE_STEPS, IDLE_UNKNOWN_S = 60.0, 5.0, 120.0
"""Without progress is who made no step for so long and for so many steps' time; where that is unknown, for the last."""


def told_again_s(left_s: float) -> float:
    """Seconds by which the times of a job that is done in `left_s` move before they are told again."""
    return max(TOLD_AGAIN_S, TOLD_AGAIN_SHARE * left_s)


def expected_of(view: JobView, told: tuple[float, float], data: Travel, now_s: float) -> Expected | None:
    """The interval around what the policy expects; None where that is no time at all.

    `told` is (start by upper ends, finish by the middle of the job's own estimate), of which `data` is the way of its
    data.
    """
    start_s, finish_s = told
    if not (now_s - FARTHEST_S < start_s <= finish_s < now_s + FARTHEST_S):
        return None
    begins_s = max(now_s, start_s)
    begun_s = min(begins_s + data.mid_s, max(begins_s, finish_s))
    run_s = max(0.0, finish_s - begun_s)
    slowdown = view.slowdown_at(run_s)
    # The start is given by upper ends already: jobs before it may be done earlier, hardly later.
    low_s = now_s + min(data.low_s, begun_s - begins_s) + ((begins_s - now_s) + run_s) / slowdown
    high_s = begun_s + (data.high_s - data.mid_s) + run_s * slowdown
    # Of a wide range it may lie beyond every calendar: one such job would keep all others from being decided on.
    return Expected(start_s=start_s, finish_s=finish_s, low_s=low_s, high_s=min(high_s, now_s + FARTHEST_S))


def expectations_write(facts: Facts, decision: Decision, started: Set[str]) -> None:
    """Note place, reason and times of every job, and tell those who watch what is new. `started`: jobs that the
    decision has placed, which wait no more."""
    waits = {**decision.waits, **_nearly_started(decision)}
    idle, queued = _idle_runs(facts, decision), facts.queued - started
    for view in facts.views:
        job = facts.jobs[view.job_id]
        if view.job_id in started:  # as it has been written by now
            job.state, job.waiting_code, job.waiting_text, job.queue_position = JobState.PLACED, "", "", None
        reason = waits.get(view.job_id)
        planned = decision.planned_on.get(view.job_id, "")
        told = decision.expected.get(view.job_id)
        data = decision.data.get(view.job_id, view.bringing)
        expected = expected_of(view, told, data, facts.now_s) if told else None
        stalled = _idle_before(view, reason, told, idle)
        stands_still = idle_s(job) is not None
        changes = {
            **_waiting(facts, job, reason if view.job_id in queued else None, planned, stalled),
            # Of a run that makes no progress it would move with the clock: nothing is told but that.
            **_times(job, None if stands_still else expected, facts.now_s),
        }
        expected = expected and _as_told(job, changes, expected)
        stuck = "" if expected or not view.promised or reason is None else stuck_words(view, reason, facts)
        from_policy = decision.warnings.get(view.job_id, stuck)
        warning = danger_words(job, expected, from_policy, facts.now_s, stands_still=stands_still)
        if warning != job.warning:
            changes["warning"] = warning
        if not changes or not Job.objects.filter(pk=job.pk, state=job.state).update(**changes):
            continue
        if "warning" in changes:
            danger_note(job, warning, None if stands_still else expected)
        for name, value in changes.items():
            setattr(job, name, value)
        publish_job(job.project_id, job.pk, "waiting" if "waiting_text" in changes else "expected", told_live(job))


def _nearly_started(decision: Decision) -> dict[str, WaitReason]:
    """Why those still wait whose devices are theirs as soon as others have left: before all who have none yet."""
    leaving = [placement for placement in decision.placements if placement.waits_for]
    return {
        placement.job_id: WaitReason(
            code=WaitCode.DEVICES_BUSY, text="It has devices, which are being given back: it starts once they are.",
            position=place, holders=placement.waits_for,
        )
        for place, placement in enumerate(leaving, start=1)
    }  # fmt: skip


def told_live(job: Job) -> dict[str, Any]:
    """The same for the live stream."""
    return {
        "code": job.waiting_code,
        "text": job.waiting_text,
        "position": job.queue_position,
        **{name.removeprefix("expected_").removesuffix("_at"): at for name, at in start_times(job).items()},
        "finish": job.expected_finish_at,
        "low": job.expected_low_at,
        "high": job.expected_high_at,
        "promised": job.promised_at,
        "slack_s": slack_s(job),
        "warning": job.warning,
    }


def slack_s(job: Job) -> float | None:
    """Seconds between the expected finish and the promised one, negative when it is late; None without a promise.

    Of a job that has succeeded it is by its real finish, and by its deadline where that was not promised.
    """
    by = job.promised_at or job.deadline_at
    if job.state == JobState.SUCCEEDED:
        return (by - job.finished_at).total_seconds() if by and job.finished_at else None
    if job.promised_at is None or job.expected_finish_at is None:
        return None
    return (job.promised_at - job.expected_finish_at).total_seconds()


def left_s(job: Job) -> float | None:
    """Seconds until the expected finish of a job that has devices: the time left, wherever it is told. None: unknown.

    What the run itself says of its end goes into the expected finish, so that both are one figure. Before its first
    step that moves with the clock, and is told anew in strides: within one of them nobody knows.
    """
    if JobState(job.state) not in HOLDS_DEVICES or job.expected_finish_at is None or idle_s(job) is not None:
        return None
    left = (job.expected_finish_at - timezone.now()).total_seconds()
    return None if job.state == JobState.PLACED and left < TOLD_AGAIN_S else max(0.0, left)


def finish_outrun(job: Job) -> dict[str, None]:
    """Of a job whose first step is made now: no expected finish, where it was to have ended by now, or in a moment. The
    next decision tells one anew."""
    is_outrun = job.state == JobState.PLACED and job.expected_finish_at is not None and left_s(job) is None
    return {"expected_finish_at": None} if is_outrun else {}


def idle_s(job: Job) -> float | None:
    """Seconds for which a training has made no step, once they are many times what one takes; None: it gets on, or
    nobody can say.

    Its expected finish is none then: it would move with the clock.
    """
    if job.state != JobState.RUNNING or job.phase != Phase.TRAINING or job.moved_at is None:
        return None
    left = job.steps_total - job.step
    step_s = job.eta_s / left if job.eta_s and left > 0 else IDLE_UNKNOWN_S / IDLE_STEPS
    idle = (timezone.now() - job.moved_at).total_seconds()
    return idle if idle > max(IDLE_LEAST_S, IDLE_STEPS * step_s) else None


def _waiting(facts: Facts, job: Job, reason: WaitReason | None, planned: str, stalled: Sequence[str]) -> dict[str, Any]:
    """`planned`: the node on which it is going to start, where that is known; `stalled`: as `_idle_before`."""
    if reason is None:
        return {}
    text = reason.told(lambda other: facts.name_for(job, other))
    new = {
        "waiting_code": str(reason.code),
        "waiting_text": " ".join(filter(None, (text, *_more_words(facts, job, reason, planned, stalled)))),
        "queue_position": reason.position or None,
    }
    return {name: value for name, value in new.items() if value != getattr(job, name)}


def _more_words(facts: Facts, job: Job, reason: WaitReason, planned: str, stalled: Sequence[str]) -> Iterator[str]:
    """What to know beside the reason; as `_waiting`."""
    yield _kept_words(reason)
    yield _idle_words(facts, job, stalled)
    yield _copying_words(facts, job, planned)


def _idle_runs(facts: Facts, decision: Decision) -> dict[str, tuple[str, float]]:
    """(kind of device, when its end is planned) of runs without progress, by job id; infinite where nobody can tell."""
    runs = ((view.job_id, view.running) for view in facts.views if idle_s(facts.jobs[view.job_id]) is not None)
    never = (math.inf, math.inf)
    return {
        job_id: (run.option.kind, decision.expected.get(job_id, never)[1]) for job_id, run in runs if run is not None
    }


def _idle_before(
    view: JobView,
    reason: WaitReason | None,
    told: tuple[float, float] | None,
    idle: Mapping[str, tuple[str, float]],
) -> list[str]:
    """Ids of runs without progress that a job waits for: those that hold what it needs, and those whose devices are
    planned on before it starts, be it by jobs that go first."""
    held = [other for other in (reason.holders if reason else ()) if other in idle]
    kinds, start_s = {option.kind for option in view.options}, told[0] if told else -math.inf
    return held + [other for other, (kind, ends_s) in idle.items() if kind in kinds and ends_s <= start_s]


def _idle_words(facts: Facts, job: Job, stalled: Sequence[str]) -> str:
    """That what is expected after the end of these moves with the clock."""
    names = list(dict.fromkeys(facts.name_for(job, other) for other in stalled))
    return f"No progress is made by {' and '.join(names)}: the expected times move until it is." if names else ""


def _kept_words(reason: WaitReason) -> str:
    """The end of a reservation that has one: it does not move, as what is only expected does."""
    until = moment_of(reason.kept_until_s) if reason.kept_until_s else None
    return f"The reservation ends {moment_words(until)}." if until else ""


def _copying_words(facts: Facts, job: Job, planned: str) -> str:
    """Where the job's data are on their way to; not where the same data go for another job, which starts there."""
    sought = {name: cache for name, cache in facts.caches.items() if planned in ("", name)}
    copying = (name for name, cache in sought.items() if cache.copying == dataset_of(job))
    nodes = ", ".join(sorted(copying))
    return f"Its data are being copied to {nodes} ahead of the start." if nodes else ""


def _as_told(job: Job, changes: Mapping[str, Any], expected: Expected) -> Expected:
    """The same with the finish that people read, which does not move with every decision; nor do words about it."""
    finish_at, high_at = (changes.get(name, getattr(job, name)) for name in ("expected_finish_at", "expected_high_at"))
    if finish_at is None or high_at is None:
        return expected
    return replace(expected, finish_s=finish_at.timestamp(), high_s=high_at.timestamp())


def _times(job: Job, expected: Expected | None, now_s: float) -> dict[str, Any]:
    names = ("expected_start_at", "expected_finish_at", "expected_low_at", "expected_high_at")
    if expected is None:
        return dict.fromkeys(names) if any(getattr(job, name) for name in names) else {}
    new_s = (expected.start_s, expected.finish_s, expected.low_s, expected.high_s)
    old = [getattr(job, name) for name in names]
    finish_enough_s = told_again_s(expected.finish_s - now_s)
    # A start that is near moves by little, however long the run takes.
    start_enough_s = min(finish_enough_s, max(START_TOLD_AGAIN_S, told_again_s(expected.start_s - now_s)))
    enough_s = (start_enough_s, *[finish_enough_s] * 3)
    moved = zip(old, new_s, enough_s, strict=True)
    if all(at is not None and abs(at.timestamp() - at_s) < enough for at, at_s, enough in moved):
        return {}
    return {name: datetime.fromtimestamp(at_s, UTC) for name, at_s in zip(names, new_s, strict=True)}

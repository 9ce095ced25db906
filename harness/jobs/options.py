"""The ways a job may be run: what the estimator offers, refined by what the run itself shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone

from codegen.modes import MODES, can_lose_ranks
from codegen.spec import TaskSpec
from harness.errors import Invalid
from harness.jobs.models import Checkpoint, Job
from harness.jobs.own_range import own_share, own_slowdown
from harness.jobs.states import job_note
from harness.pool.models import DeviceKind
from scheduler.estimation.rest import OBSERVED_AFTER_S, OBSERVED_FROM, own_pace_counts
from scheduler.types import Option
from worker.states import JobState
from worker.words import counted

DEADLINE_MOST = timedelta(days=3653)
"""Ten years: how far ahead a finish may be wished for."""
UNKNOWN_SLOWDOWN = 3.0
"""Upper over middle where nothing was estimated but a run shows its pace at times."""
NARROWER_COST = 1.01
"""Energy of a run with fewer ranks than were estimated, over that with all of them; see `options_narrower`."""
_GOES_ON = frozenset({JobState.RUNNING, JobState.PAUSING})
"""States in which a job is where its last step says."""
_TELLS_PACE = _GOES_ON | {JobState.RETURNING}
"""Those in which what was told of its end is of the run that it has, or has just had."""
RATE_MOST_PER_S = 1e6
"""Nothing is done a million times per second: a program that claims so is not believed."""


def option_read(body: Mapping[str, Any]) -> Option | None:
    """An option from plain values; None where it is none."""
    try:
        return Option(**body)
    except (TypeError, ValueError):
        return None


def job_options_set(job: Job, options: Sequence[Option], *, slowdown: float, note: str = "") -> None:
    """Let the scheduler choose from these, in order of preference; `slowdown` is upper over middle of the run time,
    of the worst of them.

    An empty list takes the estimate back: the job runs as its spec says, and nothing can be promised.
    """
    job.options = [asdict(option) for option in options]
    job.slowdown = max(1.0, slowdown) if options and math.isfinite(slowdown) else 0.0
    Job.objects.filter(pk=job.pk).update(options=job.options, slowdown=job.slowdown)
    if note:
        job_note(job, "note", note)


def wanted_devices(job: Job) -> tuple[str, int]:
    """(kind, count) of the devices the job's resolved spec asks for."""
    return devices_asked(job.resolved.get("spec", {}))


def devices_asked(resolved: Mapping[str, Any]) -> tuple[str, int]:
    """(kind, count) of the devices a resolved spec asks for."""
    resources = resolved.get("resources", {})
    kind = resources.get("device", "cpu")
    count = resources.get("count", 1)
    return (kind if kind in DeviceKind.values else "cpu"), (count if isinstance(count, int) and count > 0 else 1)


def wanted_model(job: Job) -> str:
    """Model of the devices the job's resolved spec asks for; empty: any of its kind."""
    return str(job.resolved.get("spec", {}).get("resources", {}).get("device_model", ""))


def wanted_memory_bytes(job: Job) -> int:
    """Memory that the person asked for; 0 where it was left open."""
    memory_gib = job.spec.get("resources", {}).get("memory_gib", "auto")
    return int(memory_gib * 2**30) if isinstance(memory_gib, (int, float)) else 0


def wanted_deadline(spec: TaskSpec) -> datetime | None:
    """The requested finish time, in UTC."""
    wished = spec.budget.deadline
    return wished.astimezone(UTC) if isinstance(wished, datetime) else None


def deadline_check(deadline_at: datetime, *, field: str) -> None:
    """Raise `Invalid` on `field` where nobody means this finish time: a run may be foretold to take long, but a typo
    reaches the year 9999."""
    if deadline_at > timezone.now() + DEADLINE_MOST:
        raise Invalid(
            f"The finish time {deadline_at.astimezone(UTC):%Y-%m-%d} is more than ten years away.",
            field=field,
            code="deadline_too_far",
            hint="Check the year, or ask for no finish time.",
        )


def has_estimate(job: Job) -> bool:
    """Whether anybody can tell how long it takes."""
    return any(option.rate_per_s > 0 for option in options_of(job))


def options_of(job: Job) -> tuple[Option, ...]:
    """What the scheduler may choose from; without an estimate the one that the spec fixes."""
    options = [option for body in job.options if (option := option_read(body)) is not None]
    if options:
        return tuple(options)
    kind, count = wanted_devices(job)
    mode = job.resolved.get("spec", {}).get("mode", "")
    mode = mode if mode in MODES and count > 1 else ""
    named = wanted_model(job)
    return (Option(kind=kind, model_name=named, count=count, mode=mode, memory_bytes=wanted_memory_bytes(job)),)


def work_left(job: Job) -> float:
    """Share of the run that is still to do, by its steps: of a run that does not go on now, from what it has saved."""
    return _left_from(job, job.step if job.state in _GOES_ON or not job.step else saved_step(job) or 0)


def _left_from(job: Job, step: int) -> float:
    if not job.steps_total or not 0 <= step <= job.steps_total:
        return 1.0
    return 1.0 - step / job.steps_total


def with_saved_step(rows: QuerySet[Job]) -> QuerySet[Job]:
    """With what `saved_step` says of each, in the same query."""
    kept = Checkpoint.objects.filter(job=OuterRef("pk"), removed_at=None)
    named, newest = kept.filter(name=OuterRef("resume_from")), kept.order_by("-step")
    return rows.annotate(known_saved_step=Coalesce(*(Subquery(one.values("step")[:1]) for one in (named, newest))))


def saved_step(job: Job) -> int | None:
    """Step of the checkpoint that its next attempt starts from; None where nothing is saved."""
    if hasattr(job, "known_saved_step"):
        known: int | None = job.known_saved_step
        return known
    kept = job.checkpoints.filter(removed_at=None)
    chosen = kept.filter(name=job.resume_from).first() or kept.order_by("-step").first()
    return chosen.step if chosen else None


def observed_rate_per_s(job: Job) -> float | None:
    """Share of the run it does per second, from its own pace; None while it tells none."""
    left = _left_from(job, job.step)
    # What is left to do is what the program itself says: any number at all.
    if job.state not in _TELLS_PACE or not (job.eta_s and job.eta_s > 0) or left <= 0:
        return None
    rate_per_s = left / job.eta_s
    return rate_per_s if 0 < rate_per_s <= RATE_MOST_PER_S else None


def options_refined(job: Job, running: Option, since: datetime) -> tuple[tuple[Option, ...], Option, float]:
    """(options, the running one, slowdown) with the rates and the range that the run shows: all estimates err alike.

    `since`: when it got the devices that it has.
    """
    options, slowdown = options_of(job), slowdown_of(job)
    if not running.rate_per_s:
        # It began before its program was read: what was foretold since then is told of the devices it holds, too.
        told = next((option for option in options if _same(option, running)), running)
        running = replace(told, memory_bytes=running.memory_bytes)
    seen, told_slowdown = observed_rate_per_s(job), running.slowdown or slowdown
    done, held_s = 1.0 - _left_from(job, job.step), (timezone.now() - since).total_seconds()
    is_early = seen is not None and done < OBSERVED_FROM and held_s < OBSERVED_AFTER_S
    here = own_share(job, since) if is_early else done
    if seen is None or not own_pace_counts(done, held_s, seen, running.rate_per_s, told_slowdown, here=here):
        return options, running, slowdown
    slowdown = own_slowdown(job, since, told_slowdown)
    factor = seen / running.rate_per_s if running.rate_per_s else 1.0
    refined = tuple(
        replace(
            option,
            rate_per_s=seen if _same(option, running) else min(RATE_MOST_PER_S, option.rate_per_s * factor),
            slowdown=slowdown,
        )
        for option in options
    )
    return refined, replace(running, rate_per_s=seen, slowdown=slowdown), slowdown


def job_pace_keep(job: Job, ran: Option, since: datetime) -> None:
    """Plan a job that leaves its devices by the pace that it showed on them (`since`), as long as it waits too: by what
    was estimated before, it would have time for a deadline, start, be too slow for it, make room, and so on for ever.

    Who was not estimated stays so.
    """
    options, _, slowdown = options_refined(job, ran, since)
    if has_estimate(job) and options != options_of(job):
        job_options_set(job, options, slowdown=slowdown)


def options_narrower(job: Job, options: tuple[Option, ...]) -> tuple[Option, ...]:
    """With fewer ranks as well, down to what the spec allows (`resources.least`), widest first.

    Nobody measured them: they are taken to be slower in proportion, and a little worse in energy, so that they are
    chosen where more devices cannot be had, and never for their own sake.
    """
    least = job.resolved.get("spec", {}).get("resources", {}).get("least")
    if not isinstance(least, int) or least < 1:
        return options
    _, most = wanted_devices(job)
    found = list(options)
    for option in options:
        if (option.count, option.parts) != (most, ()) or not can_lose_ranks(option.kind, option.mode):
            continue
        known = {other.count for other in found if other.key == option.key}
        found += [option_narrowed(option, count) for count in range(most - 1, least - 1, -1) if count not in known]
    return tuple(found)


def option_narrowed(option: Option, count: int) -> Option:
    """With fewer ranks, taken to be slower in proportion."""
    share = count / option.count
    return replace(
        option, count=count, rate_per_s=option.rate_per_s * share, power_w=option.power_w * share * NARROWER_COST
    )


def slowdown_of(job: Job) -> float:
    """Upper over middle of its run time."""
    return max(1.0, job.slowdown) if job.slowdown else UNKNOWN_SLOWDOWN


def _same(left: Option, right: Option) -> bool:
    # One device knows one mode only; a spec without an estimate leaves it open, as it does the model.
    modes = left.count == 1 or left.mode == right.mode
    models = left.model_name == right.model_name or not (left.model_name and right.model_name)
    return modes and models and (left.kind, left.count) == (right.kind, right.count)


def option_words(option: Option) -> str:
    """`2 GPUs`, `1 CPU core`."""
    one = {"cpu": "CPU core", "cuda": "GPU"}.get(option.kind, option.kind)
    return counted(option.count, one)

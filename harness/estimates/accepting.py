"""Take a line of an offer: its devices go into the job's spec, its estimate is kept with the job."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from codegen.modes import STAGED
from harness.accounts.access import require
from harness.accounts.models import Role, User
from harness.calibration.known import fitted_since
from harness.errors import Conflict, Invalid
from harness.estimates.groups import groups_read, most_together, option_there
from harness.estimates.line_spec import spec_with, taken_of
from harness.estimates.models import Inspection, JobEstimate, OfferRow, OfferState
from harness.estimates.offers import OFFERABLE, OFFERED, Asked, job_key, offer_make, otherwise_hint, utc
from harness.estimates.own_pace import probes_known
from harness.estimates.pricing import estimates_of
from harness.estimates.promising import option_of
from harness.estimates.tried import rank_rows
from harness.jobs.admission import job_admit_again
from harness.jobs.copying import GAVE_WAY, edits_given_way
from harness.jobs.drafts import job_spec_update
from harness.jobs.models import Job
from harness.jobs.options import job_options_set, wanted_memory_bytes
from harness.jobs.spec_marks import spec_mark
from harness.jobs.states import job_note
from harness.moments import moment_words
from harness.pool.turn import facts_change
from scheduler.estimation.alone import tells_of
from scheduler.estimation.values import Allocation, Estimate
from scheduler.offers.mixtures import is_there
from scheduler.offers.recommend import can_be_taken, candidates, takes
from scheduler.offers.values import Hindrance, Offer, OfferLine, Wish
from scheduler.offers.words import devices_words, energy_told
from scheduler.types import Option
from scheduler.workload import Workload
from worker.states import JobState, said

_TOLD = timedelta(milliseconds=1)
"""As exactly the API tells a moment."""
_CHECK = "Here is a new offer; please check it."


def offer_accept(
    *,
    user: User,
    offer: OfferRow,
    line: int | None = None,
    seen_at: datetime | None = None,
    elastic: bool = True,
    promised: bool = True,
) -> Job:
    """Give the job the devices of one line (its place in the offer; None: the recommended one).

    `seen_at` is `made_at` of the offer as the person saw it; None: as it is.
    A draft's spec is changed; of a job that waits or is paused only what the scheduler may choose from. With `elastic`
    the scheduler may also use other numbers of the same devices, where that keeps promises; of a line that is not the
    recommended one only such that run no longer. Without `promised` a line that may be late can be taken, too (None:
    the likeliest to be on time, where none is recommended).
    Raises `NotFound`, `Forbidden`, `Invalid` (no such line), `Conflict` (it cannot be taken, or would break the job's
    promise; or devices, their calibration or the program changed since, or a draft's deadline passed, then with a new
    offer: `details.offer`; or the offer was priced anew since the person saw it).
    """
    job = _job_of(user, offer)
    _seen_check(offer, seen_at)
    priced = _priced_of(offer)
    chosen = line_of(priced, line, promised=promised)
    _fresh(user, job, offer, chosen)
    told: dict[str, Any] = {"offer_id": offer.pk}
    if job.state == JobState.DRAFT:
        job = _draft_keep(user, job, offer, priced, chosen)
        if lost := edits_given_way(job):
            told[GAVE_WAY] = lost
    with transaction.atomic():
        _hold(job)
        _line_keep(job, offer, priced, chosen, elastic=elastic)
        job_note(job, "person", f"Offer accepted: {_line_words(chosen)}", actor=user, data=told)
    offer.refresh_from_db()
    return job


def _job_of(user: User, offer: OfferRow) -> Job:
    """The job of an offer, whose devices the user may still choose. Raises `NotFound`, `Forbidden`, `Conflict`."""
    job = offer.job
    if job is None:
        raise Invalid("This offer does not belong to a job.", hint="Create a job from the spec, and ask for its offer.")
    require(user, job.project, Role.MEMBER)
    job.refresh_from_db()
    if job.state not in OFFERABLE:
        told = f"The job {job.name} {said(job.state)}: its devices cannot be chosen any more."
        raise Conflict(told, code="wrong_state", hint=otherwise_hint(job))
    return job


def _draft_keep(user: User, job: Job, offer: OfferRow, priced: Offer, chosen: OfferLine) -> Job:
    """A draft's spec asks for what the line has. Raises `Conflict` where its program would make other steps then, or
    somebody gives it another spec meanwhile."""
    spec, seen = spec_with(job, chosen, offer), spec_mark(job)
    job = job_spec_update(user=user, job=job, spec=spec, taken=taken_of(job, spec, chosen, priced), seen=seen)
    if job_key(job) != (offer.inspection.key if offer.inspection else ""):
        raise _stale(user, job, offer, "With these devices the program makes different steps.")
    return job


def _line_keep(job: Job, offer: OfferRow, priced: Offer, chosen: OfferLine, *, elastic: bool) -> None:
    """The job's estimates are those of the line and of the ways beside it. Raises `Conflict` for a promise's sake."""
    ways = _ways(priced, chosen, elastic=elastic)
    whole = [way.estimate.of_share(1.0 / priced.left) for way in ways]
    estimate_keep(job, whole[0], whole[1:], offer=offer)
    _promise_check(job)
    accepted = chosen.estimate.to_dict()["allocation"]
    OfferRow.objects.filter(pk=offer.pk).update(state=OfferState.ACCEPTED, accepted=accepted)


def _seen_check(offer: OfferRow, seen_at: datetime | None) -> None:
    """Pass if the lines are those that the person saw, in their order. Raises `Conflict`.

    A few steps that somebody tries of the same program price an offer anew, and its lines may change places.
    """
    seen_at = utc(seen_at)
    if seen_at is not None and (offer.made_at is None or abs(seen_at - offer.made_at) >= _TOLD):
        raise Conflict(
            "This offer has been priced anew since you saw it: its lines may stand in another order.",
            code="offer_stale", hint="Look at it again, then choose.", details={"offer": offer.pk},
        )  # fmt: skip


def _hold(job: Job) -> None:
    """Let nobody start the job until the transaction ends. Raises `Conflict` where somebody just did."""
    facts_change()
    if not Job.objects.filter(pk=job.pk, state=job.state).exists():
        raise Conflict(f"{job.name} has started in the meantime.", code="wrong_state", hint="Check it again.")


def _promise_check(job: Job) -> None:
    """A finish that was promised is kept on the new devices too. Raises `Conflict` where it could not be."""
    if job.promised_at is None or job.promised_at <= timezone.now():
        return
    fields = job_admit_again(job)
    if fields["promised_at"] is None:
        raise Conflict(
            "With these devices the promised finish could not be kept.",
            code="promise_lost",
            hint=f"{fields['promise'].get('text', '')} Choose another line, or clone the job.".strip(),
        )
    Job.objects.filter(pk=job.pk).update(**fields)


def _priced_of(offer: OfferRow) -> Offer:
    """What the row holds. Raises `Conflict` where that is nothing."""
    if offer.state == OfferState.FAILED:
        raise Conflict("This offer has no lines: it failed.", hint="Look at it: it says why.")
    if offer.state not in {OfferState.READY, OfferState.ACCEPTED}:
        raise Conflict("This offer is not priced.", hint="Wait for it, or ask for a new one.")
    return Offer.from_dict(offer.body)


def line_of(priced: Offer, place: int | None, *, promised: bool = True) -> OfferLine:
    """The line a person points at; without `promised` one that may be late will do. Raises `Conflict`, `Invalid`."""
    if place is None:
        chosen = priced.chosen or (None if promised else priced.likeliest)
        if chosen is None:
            raise Conflict(priced.text, code="nothing_offered", hint=" ".join(priced.changes))
        return chosen
    if not 0 <= place < len(priced.lines):
        raise Invalid(f"This offer has no line {place}.", field="line", hint=_lines_hint(len(priced.lines)))
    line = priced.lines[place]
    is_late = not promised and line.hindrance is Hindrance.DEADLINE
    if not is_late and not can_be_taken(line, priced.wish):
        raise Conflict(line.why, code=f"line_{line.hindrance}", field="line", hint="Choose another line.")
    return line


def _lines_hint(count: int) -> str:
    if not count:
        return "It has no line at all: no device of the pool can run the job. Its text says why."
    return "Its only line is 0." if count == 1 else f"Its lines are 0 to {count - 1}."


def _fresh(user: User, job: Job, offer: OfferRow, chosen: OfferLine) -> None:
    """Pass if devices, what is known of them and program are what they were when the offer was made, and the deadline
    that a draft would have is still to come. Raises `Conflict` with a new offer."""
    if offer.inspection is None or job_key(job) != offer.inspection.key:
        raise _stale(user, job, offer, "The program has changed since this offer was made.")
    if job.state == JobState.DRAFT and offer.deadline_at is not None and offer.deadline_at <= timezone.now():
        told = f"The deadline of this offer, {moment_words(offer.deadline_at)}, has passed."
        raise _stale(user, job, offer, told, field="deadline", hint="Ask again with a later deadline, or none.")
    way = chosen.allocation
    names = [name for name, _ in way.parts] or [way.model_name]
    if not is_there(groups_read(job.project, memory_bytes=offer.memory_bytes, with_reserved=True), way):
        told = f"{devices_words(way)}: no node that takes work has them {_since_when(option_of(chosen.estimate))}."
        raise _stale(user, job, offer, told)
    if offer.made_at is not None and fitted_since(way.kind, names, offer.made_at):
        told = f"{devices_words(way)}: a calibration has told since this offer was made what a run takes there."
        raise _stale(user, job, offer, told)


def _since_when(option: Option) -> str:
    """Whether devices that no node at work has now are away, on a node that is down or drained, or gone."""
    if option_there(option, most_together(with_away=True, at_work=True)):
        return "now; the pool has them, and they may be back in a moment"
    return "now" if option_there(option, most_together(with_away=True)) else "any more"


def offer_again(user: User, job: Job, offer: OfferRow) -> OfferRow:
    """A new offer for the same wish, on the pool and the program as they are now. Raises what `offer_make` does."""
    wish = {key: offer.wish.get(key) for key in ("kind", "model_name", "count", "mode")}
    asked = Asked.of(deadline_at=offer.deadline_at, names_deadline=job.state == JobState.DRAFT, **wish)
    return offer_make(user=user, job=job, asked=asked)


def _stale(user: User, job: Job, offer: OfferRow, text: str, *, hint: str = _CHECK, field: str = "") -> Conflict:
    details = {"offer": offer_again(user, job, offer).pk}
    return Conflict(text, code="offer_stale", hint=hint, field=field or None, details=details)


def _ways(offer: Offer, chosen: OfferLine, *, elastic: bool) -> list[OfferLine]:
    """The chosen line first; then other numbers of the same devices, cheapest first.

    Whoever takes another line than the recommended one wants it done sooner than that: only ways that run no longer
    are added, since the scheduler takes the thriftiest of all that keep the deadline. A model is cut into as many
    stages as were chosen: such a job is not made wider or narrower. Nor does a job change its mode: only single and
    sync are one, on one device and on several, for both take the same steps.
    """
    if not elastic or chosen.allocation.mode in STAGED:
        return [chosen]
    key = (chosen.allocation.kind, chosen.allocation.model_name)
    modes = OFFERED if chosen.allocation.mode in OFFERED else {chosen.allocation.mode}
    is_best = chosen == (offer.chosen or offer.likeliest)
    most_s = math.inf if is_best else chosen.estimate.run_s.high
    others = [
        line
        for line in offer.lines
        if line != chosen
        and takes(line)
        and (line.allocation.kind, line.allocation.model_name) == key
        and line.allocation.mode in modes
        and line.estimate.run_s.high <= most_s
    ]
    return [chosen, *sorted(others, key=lambda line: line.energy_j.mid)]


def _line_words(line: OfferLine) -> str:
    return f"{devices_words(line.allocation)}, {energy_told(line)}"


def estimate_keep(
    job: Job, estimate: Estimate, others: Sequence[Estimate], *, offer: OfferRow | None = None
) -> JobEstimate:
    """Keep what the job is expected to cost, and give the scheduler the ways it may choose from."""
    kept, _ = JobEstimate.objects.update_or_create(
        job=job,
        defaults={
            "inspection_key": job_key(job),
            "estimate": estimate.to_dict(),
            "ways": [other.to_dict() for other in others],
            "offer": offer,
        },
    )
    memory_bytes = wanted_memory_bytes(job)
    options = [option_of(way, memory_bytes) for way in (estimate, *others)]
    job_options_set(job, options, slowdown=max(option.slowdown for option in options))
    return kept


def estimate_fixed(job: Job, workload: Workload, only: Allocation | None = None) -> JobEstimate | None:
    """Estimate a job on the devices its spec fixes, and keep it; None where the pool has none of them, or none that
    `only` tells of: what alone its program was tried on."""
    priced = estimates_fixed(job, workload, only)
    return estimate_keep(job, priced[0], priced[1:]) if priced else None


def estimates_fixed(job: Job, workload: Workload, only: Allocation | None = None) -> list[Estimate]:
    """What a job costs on the devices its spec fixes, of which `only` tells: of several models, the fastest first.

    On reserved ones, too: the scheduler keeps it off them for as long, and knows what it takes there afterwards.
    """
    spec = job.resolved.get("spec") or {}
    resources, mode = spec.get("resources") or {}, spec.get("mode")
    stages = (spec.get("pipeline") or {}).get("stages") if mode in STAGED else None
    wish = Wish(
        kind=resources.get("device"), model_name=resources.get("device_model"), count=resources.get("count"), mode=mode,
        stages=stages, even=resources.get("split") == "even",
    )  # fmt: skip
    groups = groups_read(job.project, memory_bytes=wanted_memory_bytes(job), with_reserved=True)
    ways = tuple(way for way in candidates(workload, groups, wish=wish) if wish.allows(way.allocation))
    ways = ways if only is None else tuple(way for way in ways if tells_of(only, way.allocation, workload))
    found = Inspection.objects.filter(key=job_key(job)).first()
    rows = 0 if mode in STAGED else rank_rows(job)
    estimates = estimates_of(workload, ways, probes_known(found, job, rows=rows), even=wish.even)
    # Where some devices have the memory for it, the scheduler must not take others.
    fitting = [item for item in estimates.values() if item.fits] or estimates.values()
    return sorted(fitting, key=lambda item: item.run_s.mid)

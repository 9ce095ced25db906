"""An offer as the cost tab shows it: words, table, picture; and what was predicted beside what came true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse
from django.utils import timezone

from codegen.spec import MODE_WORDS
from harness.estimates.earliest import earliest_deadline
from harness.estimates.models import OfferRow, OfferState
from harness.estimates.offers import OFFERABLE
from harness.estimates.selectors import (
    LineView,
    offer_is_current,
    offer_lines,
    offer_of_job,
    offer_priced,
    offer_problem,
    offer_try_of,
    probe_waiting,
)
from harness.jobs.mode import named_mode
from harness.jobs.models import Job
from harness.pages.charts import chart_card
from harness.pages.told_view import expected_words, range_words, told_context
from scheduler.offers.recommend import can_be_taken, takes
from scheduler.offers.values import Mark, Offer, OfferLine, Wish
from scheduler.offers.words import bringing_words, energy_range_words, energy_words
from worker.states import JobState
from worker.words import energy_unit, size_words

LINES_SHOWN = 8
"""Beside those that stand out; the others are one click away."""
_TIME_UNITS = (
    (2 * 86_400.0, 86_400.0, "days"),
    (2 * 3600.0, 3600.0, "hours"),
    (180.0, 60.0, "minutes"),
    (0.0, 1.0, "seconds"),
)
_COLUMNS = (
    "devices",
    "earliest finish",
    "likely finish",
    "latest finish",
    "least energy",
    "energy",
    "most energy",
    "what",
    "why",
    "best trade-off",
)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """One line of the table, in words."""

    view: LineView
    mode_says: str
    data: str
    """What brings its data; empty where nothing is brought."""
    run: str
    run_range: str
    memory: str
    memory_range: str
    room: str
    energy: str
    energy_range: str
    basis: str
    """What all three figures rest on; empty where they do not rest on the same."""
    takeable: bool
    """It can be chosen and taken with a promise."""
    selected: bool
    is_wide: bool
    """The expected finish is another minute than the latest one, and is told beside it."""
    minor: bool
    """Shown only with all the others."""


def cost_context(job: Job) -> dict[str, Any]:
    """Everything the cost tab of a job shows."""
    offerable = job.state in OFFERABLE and not job.deleted_at
    offer = offer_of_job(job)
    if offer is not None and offerable and not offer_is_current(offer, job):
        offer = None
    context = {"offerable": offerable, **(offer_context(job, offer) if offerable else {})}
    return {**context, **told_context(job)}


def offer_context(job: Job, offer: OfferRow | None) -> dict[str, Any]:
    """The part of the tab that is asked for again while a node works."""
    if offer is None:
        return {"offer": None}
    priced = offer_priced(offer)
    lines = shown_lines(priced) if priced else []
    probe = offer_try_of(offer)
    return {
        "offer": offer,
        "priced": priced,
        "problem": offer_problem(offer),
        "works": offer.state == "waiting" or probe_waiting(offer),
        "probe": probe,
        "may_try": priced is not None and _may_try(offer, priced),
        "may_take": any(line.takeable for line in lines),
        "times_passed": job.state in OFFERABLE and _are_over(lines),
        "deadline_passed": offer.deadline_at is not None and offer.deadline_at <= timezone.now(),
        "earliest_at": _earliest_to_ask(job, offer, priced) if priced else None,
        "lines": lines,
        "chart": offer_chart(job, offer, priced) if priced else None,
        "devices": device_choices(priced) if priced else [],
        "modes": MODE_WORDS,
        "modes_offered": {line.view.line.allocation.mode: line.mode_says for line in lines if line.mode_says},
        "spec_mode": named_mode(job),
    }


_KINDS = {"cpu": "CPU cores", "cuda": "GPUs"}


def device_choices(priced: Offer) -> list[dict[str, Any]]:
    """Devices that may be asked for: each kind, and below it each model by its name, as `device_read` reads them."""
    keys = {(line.allocation.kind, line.allocation.model_name) for line in priced.lines if not line.allocation.parts}
    wished = (priced.wish.kind or "", priced.wish.model_name or "")
    found = {(kind, "") for kind, _ in keys} | {key for key in keys if key[1]} | ({wished} - {("", "")})
    return [
        {
            "value": f"{kind}:{model}" if model else kind,
            "words": ": ".join(filter(None, (_KINDS.get(kind, kind), model))),
            "chosen": (kind, model) == wished,
        }
        for kind, model in sorted(found)
    ]


def device_read(value: str) -> tuple[str | None, str | None]:
    """(kind, model) that a choice of devices fixes."""
    kind, _, model = value.partition(":")
    return kind or None, model or None


def _are_over(lines: Sequence[Shown]) -> bool:
    """Whether the run that is recommended, or else each that can be taken, would be done by now, had it been taken when
    it was reckoned."""
    takeable = [shown for shown in lines if shown.takeable]
    finishes = [shown.view.line.finish_s for shown in takeable if shown.selected] or [
        shown.view.line.finish_s for shown in takeable
    ]
    now_s = timezone.now().timestamp()
    return bool(finishes) and all(finish is not None and finish.high <= now_s for finish in finishes)


def _may_try(offer: OfferRow, priced: Offer) -> bool:
    """Whether there is a use in submitting it without a promise: none is offered, or it was taken and then refused."""
    if priced.chosen is None:
        return priced.likeliest is not None
    return offer.state == OfferState.ACCEPTED and priced.deadline_s is not None


def _earliest_to_ask(job: Job, offer: OfferRow, priced: Offer) -> datetime | None:
    """The deadline that one click asks for; None where it is fixed, or is as early as it can be."""
    if job.state != JobState.DRAFT:
        return None
    earliest_at = earliest_deadline(priced)
    is_there = priced.chosen and offer.deadline_at and earliest_at and offer.deadline_at <= earliest_at
    return None if is_there else earliest_at


def shown_lines(offer: Offer) -> list[Shown]:
    """The table, in the offer's order and one unit of energy; lines that neither stand out nor come first are minor."""
    views = offer_lines(offer)
    most_j = max((view.line.energy_j.high for view in views), default=0.0)
    return [
        _shown(view, offer.wish, most_j=most_j, minor=index >= LINES_SHOWN and not _stands_out(view.line))
        for index, view in enumerate(views)
    ]


def _stands_out(line: OfferLine) -> bool:
    return bool(line.marks) or line.frontier


def _shown(view: LineView, wish: Wish, *, most_j: float, minor: bool) -> Shown:
    cost = view.line.estimate
    return Shown(
        view=view,
        mode_says=MODE_WORDS.get(view.line.allocation.mode, ""),
        data=bringing_words(view.line.bringing),
        run=expected_words(cost.run_s.mid),
        run_range=range_words(cost.run_s, expected_words),
        memory=size_words(cost.peak_bytes.mid),
        memory_range=range_words(cost.peak_bytes, size_words),
        room=size_words(view.line.memory_limit_bytes),
        energy=energy_words(view.line.energy_j.mid, beside_j=most_j),
        energy_range=energy_range_words(view.line.energy_j.low, view.line.energy_j.high, beside_j=most_j),
        basis=str(cost.time_basis) if cost.time_basis == cost.memory_basis == view.line.energy_basis else "",
        takeable=can_be_taken(view.line, wish),
        selected=Mark.RECOMMENDED in view.line.marks,
        is_wide=(finish := view.line.finish_s) is not None and finish.high // 60 > finish.mid // 60,
        minor=minor,
    )


def offer_chart(job: Job, offer: OfferRow, priced: Offer) -> dict[str, Any]:
    """Energy against finish time, with intervals; what is not offered is there too, and why."""
    drawn = [view for view in offer_lines(priced) if view.line.finish_s is not None]
    latest = max((view.line.finish_s.high - priced.now_s for view in drawn if view.line.finish_s), default=1.0)
    most = max((view.line.energy_j.high for view in drawn), default=1.0)
    time_size, time_unit = next((size, unit) for least, size, unit in _TIME_UNITS if latest >= least)
    size_j, unit = energy_unit(most)
    rows = [_point(view, priced.now_s, time_size, size_j) for view in drawn]
    deadline = (priced.deadline_s - priced.now_s) / time_size if priced.deadline_s else None
    return chart_card(
        f"offer-{offer.pk}", "Energy against finish time", "offer", list(_COLUMNS), rows,
        csv=reverse("job_offer_csv", args=[job.pk, offer.pk]), wide=True,
        note=f"Each point is one way to run it: further left it is done earlier ({time_unit} from the offer on), "
        f"further down it takes less energy ({unit}). A point stands at the latest finish, by which a "
        "deadline is kept and one way is faster than another; its bars hold finish and energy 8 times out of 10. No "
        "way is both earlier and surely cheaper than the dashed line. Hollow grey points cannot be taken; the table "
        "says why.",
        deadline=deadline, time_unit=time_unit, energy_unit=unit,
    )  # fmt: skip


def _point(view: LineView, now_s: float, time_size: float, energy_size: float) -> list[Any]:
    line = view.line
    finish, energy = line.finish_s, line.energy_j
    ends = [(value - now_s) / time_size for value in (finish.low, finish.mid, finish.high)] if finish else [None] * 3
    return [
        view.words,
        *ends,
        *(value / energy_size for value in (energy.low, energy.mid, energy.high)),
        _what(line),
        line.why,
        "yes" if line.frontier else "",
    ]


def _what(line: OfferLine) -> str:
    """What the picture calls it; the cheapest and the fastest may be too late, and are then drawn as such."""
    names = [str(mark) for mark in line.marks]
    if line.feasible:
        return ", ".join(names) or ("frontier" if line.frontier else "possible")
    return ", ".join([*names, "too late" if takes(line) else "not possible"])

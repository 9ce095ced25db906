"""Read offers and estimates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.accounts.access import require
from harness.accounts.models import Role, User
from harness.calibration.models import FinishedJobRow
from harness.errors import NotFound
from harness.estimates.models import PROGRAM_FAULTS, AskState, JobEstimate, OfferRow, OfferState, ProbeRow
from harness.estimates.offers import job_key
from harness.estimates.probe_answers import CALLED_OFF
from harness.jobs.models import Job
from scheduler.estimation.values import Estimate
from scheduler.offers.values import Offer, OfferLine, estimate_from
from scheduler.offers.words import devices_words


def offer_get(*, user: User, offer_id: str) -> OfferRow:
    """An offer by id. Raises `NotFound`."""
    rows = OfferRow.objects.select_related("job__dataset", "job__project", "project", "inspection")
    offer = rows.filter(pk=offer_id).first()
    if offer is not None and offer.project is not None:
        try:
            require(user, offer.project, Role.VIEWER)
        except NotFound:
            offer = None
    elif offer is not None and offer.owner_id != user.pk:
        offer = None
    if offer is None:
        raise NotFound("There is no such offer.", hint="Ask for a new one.")
    return offer


def offer_of_job(job: Job) -> OfferRow | None:
    """The newest offer of a job."""
    rows = OfferRow.objects.select_related("job__dataset", "job__project", "project", "inspection")
    return rows.filter(job=job).order_by("-created_at").first()


def offer_is_current(offer: OfferRow, job: Job) -> bool:
    """Whether the program is still the one that was priced."""
    return offer.inspection is not None and offer.inspection.key == job_key(job)


def offer_priced(offer: OfferRow) -> Offer | None:
    """The offer itself; None while it is not priced."""
    return Offer.from_dict(offer.body) if offer.body else None


def offer_problem(offer: OfferRow) -> dict[str, Any] | None:
    """Why it failed, with whether the program is `at_fault`; None where it did not."""
    if offer.state != OfferState.FAILED:
        return None
    problem = offer.problem or (offer.inspection.problem if offer.inspection else None) or {}
    return {**problem, "at_fault": problem.get("code") in PROGRAM_FAULTS}


def offer_probe_of(offer: OfferRow) -> ProbeRow | None:
    """The newest probe of the offer's program."""
    return offer.inspection.probes.order_by("-sent_at").first() if offer.inspection else None


def offer_try_of(offer: OfferRow) -> ProbeRow | None:
    """The newest one that was not called off: with whichever job that was, it tells nothing of the program."""
    probes = offer.inspection.probes.order_by("-sent_at") if offer.inspection else ()
    return next((probe for probe in probes if (probe.problem or {}).get("code") != CALLED_OFF), None)


def job_estimate_get(job: Job) -> Estimate | None:
    """What the job was expected to cost on the devices it was submitted with; None where nobody estimated it."""
    row = JobEstimate.objects.filter(job=job).first()
    return estimate_from(row.estimate) if row else None


def job_cost_row(job: Job) -> FinishedJobRow | None:
    """What a job that has succeeded cost, beside what was foretold of it; None until that is kept."""
    return FinishedJobRow.objects.filter(job=job, part=0).first()


def job_steps_before(job: Job) -> list[FinishedJobRow]:
    """The steps that such a job made on other devices before, on more or on fewer."""
    return list(FinishedJobRow.objects.filter(job=job, part__gt=0, step_s__gt=0).order_by("part"))


def job_actual(job: Job) -> dict[str, float | None]:
    """What a job that has succeeded cost; None where that was not measured, or it has not ended yet."""
    row = job_cost_row(job)
    return {name: getattr(row, name) if row else None for name in ("step_s", "run_s", "peak_bytes", "energy_j")}


def job_energy_basis(job: Job) -> str:
    """What the energy of `job_actual` rests on: `measured` by meters, else power of a table; empty: not known."""
    row = job_cost_row(job)
    return row.energy_basis if row and row.energy_j else ""


@dataclass(frozen=True, kw_only=True)
class LineView:
    """One line of an offer as tables show it."""

    place: int
    """In the offer, from 0."""
    line: OfferLine
    words: str


def offer_lines(offer: Offer) -> list[LineView]:
    """All lines with their devices in words."""
    return [
        LineView(place=place, line=line, words=devices_words(line.allocation)) for place, line in enumerate(offer.lines)
    ]


OFFER_COLUMNS = (
    "devices", "kind", "model", "count", "mode", "stages", "rows per rank", "start s", "finish low s", "finish s",
    "finish high s", "step s", "step s low", "step s high", "run s", "run s low", "run s high", "peak bytes",
    "peak bytes high", "memory bytes", "power W", "energy J", "energy J low", "energy J high", "time basis",
    "memory basis", "energy basis", "offered", "why not", "marks", "frontier", "rests on", "data s", "data upper s",
    "data bytes", "data node", "data basis",
)  # fmt: skip
"""Of the CSV; times of start and finish count from the moment of the offer."""


def offer_table(offer: Offer) -> list[list[Any]]:
    """Every line of an offer with every figure."""
    return [_cells(view, offer.now_s) for view in offer_lines(offer)]


def _cells(view: LineView, now_s: float) -> list[Any]:
    line, cost = view.line, view.line.estimate
    way, finish = cost.allocation, line.finish_s
    ends = (finish.low - now_s, finish.mid - now_s, finish.high - now_s) if finish else (None, None, None)
    return [
        view.words, way.kind, way.model_name, way.count, way.mode, way.stages or None,
        "+".join(map(str, way.batch_split)),
        line.start_s - now_s if line.start_s is not None else None, *ends,
        cost.step_s.mid, cost.step_s.low, cost.step_s.high, cost.run_s.mid, cost.run_s.low, cost.run_s.high,
        cost.peak_bytes.mid, cost.peak_bytes.high, line.memory_limit_bytes, cost.power_w,
        line.energy_j.mid, line.energy_j.low, line.energy_j.high,
        str(cost.time_basis), str(cost.memory_basis), str(line.energy_basis),
        "yes" if line.feasible else "no", line.why, ", ".join(line.marks), "yes" if line.frontier else "no", cost.note,
        line.bringing.seconds, line.bringing.high_s, line.bringing.size_bytes, line.bringing.node,
        str(line.bringing.basis or ""),
    ]  # fmt: skip


def probe_waiting(offer: OfferRow) -> bool:
    """Whether a device makes a few steps for this offer right now."""
    return offer.inspection is not None and offer.inspection.probes.filter(state=AskState.WAITING).exists()

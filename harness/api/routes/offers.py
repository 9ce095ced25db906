"""Routes: offers, probes, and what a job was expected to cost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponseBase
from ninja import Body, Router, Status

from harness.accounts.selectors import project_get
from harness.api.auth import person
from harness.api.routes.jobs import job_changed
from harness.api.schemas.jobs import JobChanged
from harness.api.schemas.offers import (
    AcceptIn,
    AskedIn,
    EstimateOut,
    JobOfferIn,
    OfferOut,
    ProbeIn,
    ProbeOut,
    SpecOfferIn,
)
from harness.csv import csv_chunks
from harness.datasets.selectors import dataset_get
from harness.errors import Conflict, NotFound
from harness.estimates import selectors, services
from harness.estimates.earliest import offer_make_earliest
from harness.estimates.models import OfferRow, ProbeRow
from harness.jobs.copying import edits_given_way
from harness.jobs.programs import spec_read
from harness.jobs.selectors import job_get
from harness.jobs.taken import spec_named
from harness.moments import moment_of
from harness.rates.submitting import job_submit
from harness.responses import chunks_response
from scheduler.estimation.values import values_of
from scheduler.offers.values import OfferLine
from scheduler.offers.words import bringing_words

router = Router()
jobs_router = Router()


_FIELDS = {"deadline": "deadline_at", "device": "kind", "device_model": "model_name", "count": "count", "mode": "mode"}


def _offered(body: AskedIn, spec: dict[str, Any], make: Callable[[services.Asked], OfferRow]) -> Status[Any]:
    """The offer that is asked for, by what the body says, null included; of what it leaves out what the spec wishes."""
    given = {_FIELDS[name]: getattr(body, name) for name in body.model_fields_set & _FIELDS.keys()}
    if body.earliest:
        return Status(201, _out(offer_make_earliest(make, services.Asked.wished(spec, **given, deadline_at=None))))
    return Status(201, _out(make(services.Asked.wished(spec, **given))))


@router.post("", response={201: OfferOut}, summary="An offer for a spec or a workload")
def offer_make(request: HttpRequest, body: SpecOfferIn) -> Status[Any]:
    """What a run would cost on every kind of device of the pool, without making a job.

    With `dataset` a program is made of the spec and read by a node (`state` is `waiting` meanwhile; ask again for the
    offer). With `workload` the answer is complete at once: for programs outside the portal.
    """
    user = person(request)
    if body.workload is not None:
        project = project_get(user=user, slug=body.project) if body.project else None
        priced = partial(
            services.offer_make_workload, user=user, workload=body.workload, project=project, title=body.title
        )
        return _offered(body, {}, lambda asked: priced(asked=asked))
    try:
        dataset = dataset_get(user=user, dataset_id=body.dataset or "")
    except NotFound as error:
        raise NotFound(error.message, hint=error.hint, field="dataset") from error
    spec = spec_read(body.wish).model_dump(mode="json")
    read = partial(services.offer_make_spec, user=user, dataset=dataset, spec=spec, own_model=body.model)
    return _offered(body, spec, lambda asked: read(asked=asked))


@router.get("/{offer_id}", response=OfferOut, summary="An offer")
def offer_get(request: HttpRequest, offer_id: str) -> dict[str, Any]:
    """Ask again while its `state` is `waiting`."""
    return _out(services.offer_refresh(selectors.offer_get(user=person(request), offer_id=offer_id)))


@router.get("/{offer_id}/lines.csv", summary="An offer as CSV")
def offer_csv(request: HttpRequest, offer_id: str) -> HttpResponseBase:
    """Every way with every figure; times count from the moment of the offer."""
    offer = selectors.offer_get(user=person(request), offer_id=offer_id)
    priced = selectors.offer_priced(offer)
    if priced is None:
        raise Conflict("This offer is not priced yet.", hint="Ask for it until its state is ready.")
    chunks = csv_chunks(selectors.OFFER_COLUMNS, selectors.offer_table(priced))
    return chunks_response(request, chunks, content_type="text/csv; charset=utf-8", filename=f"offer-{offer.pk}.csv")


@router.post("/{offer_id}/accept", response=JobChanged, summary="Take a line of an offer")
def offer_accept(
    request: HttpRequest, offer_id: str, body: Annotated[AcceptIn | None, Body()] = None
) -> dict[str, Any]:
    """Put the line's devices, mode and deadline into the job's spec; with `submit` queue it.

    Devices that have left the pool meanwhile or that a calibration has measured since, a program that was changed, or a
    draft's deadline that has passed, answer 409 `offer_stale` with the id of a new offer in `details.offer`: nothing is
    ever replaced silently. So does, with its own id, an offer that was priced anew since `made_at`: its lines may stand
    in another order.
    """
    user, body = person(request), body or AcceptIn.model_validate({})
    offer = selectors.offer_get(user=user, offer_id=offer_id)
    job = services.offer_accept(
        user=user, offer=offer, line=body.line, seen_at=body.made_at, elastic=body.elastic, promised=body.promise
    )
    lost = edits_given_way(job)
    if body.submit:
        job = job_submit(user=user, job=job, promised=body.promise)
    return job_changed(job, lost)


@router.post("/{offer_id}/probe", response={202: ProbeOut}, summary="Try a few real steps")
def offer_probe(request: HttpRequest, offer_id: str, body: Annotated[ProbeIn | None, Body()] = None) -> Status[Any]:
    """Have an idle device make a few real steps; the job's newest offer is priced anew with what they take.

    For programs that cannot be read without running them, and to narrow the ranges of those that can. For several
    devices one of them makes the steps of one rank; what ranks send each other stays modelled.
    """
    user, body = person(request), body or ProbeIn.model_validate({})
    offer = selectors.offer_get(user=user, offer_id=offer_id)
    probe = services.offer_probe(user=user, offer=offer, kind=body.device or "", model_name=body.device_model or "")
    return Status(202, _probe(probe))


@jobs_router.post("/{job_id}/offers", response={201: OfferOut}, summary="An offer for a job")
def job_offer(request: HttpRequest, job_id: str, body: Annotated[JobOfferIn | None, Body()] = None) -> Status[Any]:
    """What a draft, or a job that waits or is paused, would cost on every kind of device of the pool."""
    user, body = person(request), body or JobOfferIn.model_validate({})
    job = job_get(user=user, job_id=job_id)
    made = partial(services.offer_make, user=user, job=job, again=body.again)
    return _offered(body, spec_named(job.spec, job.taken), lambda asked: made(asked=asked))


@jobs_router.get("/{job_id}/estimate", response=EstimateOut, summary="Predicted and actual cost")
def job_estimate(request: HttpRequest, job_id: str) -> dict[str, Any]:
    """What the job was expected to cost when it was submitted, beside what it cost."""
    job = job_get(user=person(request), job_id=job_id)
    estimate = selectors.job_estimate_get(job)
    return {
        "estimate": estimate.to_dict() if estimate else None,
        "actual": selectors.job_actual(job),
        "actual_energy_basis": selectors.job_energy_basis(job) or None,
    }


def _probe(probe: ProbeRow) -> dict[str, Any]:
    return {
        "id": probe.pk, "state": probe.state, "device": probe.kind, "device_model": probe.model_name,
        "node": probe.node_name, "batch_size": probe.rows, "step_s": probe.step_s, "peak_bytes": probe.peak_bytes,
        "power_w": probe.power_w, "problem": probe.problem,
    }  # fmt: skip


def _line(view: selectors.LineView, deadline_s: float | None) -> dict[str, Any]:
    line, way = view.line, view.line.allocation
    body = line.estimate.to_dict()
    finish = line.finish_s
    return {
        **{key: body[key] for key in _ESTIMATE_FIELDS},
        "energy_j": values_of(line.energy_j), "energy_basis": line.energy_basis, "test_s": line.before_s, **_data(line),
        "place": view.place, "words": view.words, "device": way.kind, "device_model": way.model_name,
        "count": way.count, "mode": way.mode, "batch_split": list(way.batch_split),
        "stages": way.stages or None, "start": moment_of(line.start_s),
        "finish_low": moment_of(finish.low if finish else None), "finish": moment_of(finish.mid if finish else None),
        "finish_high": moment_of(finish.high if finish else None), "memory_limit_bytes": line.memory_limit_bytes,
        "offered": line.feasible, "hindrance": line.hindrance, "why": line.why, "frontier": line.frontier,
        "marks": list(line.marks), "chance": line.chance(deadline_s) if deadline_s is not None else None,
    }  # fmt: skip


def _data(line: OfferLine) -> dict[str, Any]:
    found = line.bringing
    return {
        "data_s": found.seconds, "data_high_s": found.high_s, "data_bytes": found.size_bytes, "data_node": found.node,
        "data_basis": found.basis, "data_words": bringing_words(found),
    }  # fmt: skip


_ESTIMATE_FIELDS = (
    "step_s", "run_s", "peak_bytes", "power_w", "time_basis", "memory_basis", "note",
)  # fmt: skip


def _out(offer: OfferRow) -> dict[str, Any]:
    priced = selectors.offer_priced(offer)
    views = selectors.offer_lines(priced) if priced else []
    probe = selectors.offer_probe_of(offer)
    return {
        "id": offer.pk,
        "state": offer.state,
        "title": offer.title,
        "job": offer.job_id,
        "project": offer.project.slug if offer.project else None,
        "deadline": offer.deadline_at,
        "wish": offer.wish,
        "text": priced.text if priced else "",
        "changes": list(priced.changes) if priced else [],
        "earliest_finish": moment_of(priced.earliest_told_s) if priced else None,
        "recommended": next((view.place for view in views if "recommended" in view.line.marks), None),
        "lines": [_line(view, priced.deadline_s if priced else None) for view in views],
        "notes": offer.notes,
        "problem": selectors.offer_problem(offer),
        "probe": _probe(probe) if probe else None,
        "accepted": offer.accepted or None,
        "trace_s": offer.inspection.trace_s if offer.inspection else None,
        "priced_s": offer.priced_s,
        "created_at": offer.created_at,
        "made_at": offer.made_at,
    }

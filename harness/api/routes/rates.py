"""Routes: learning-rate range tests of jobs."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest, HttpResponseBase
from ninja import Body, Router, Status

from harness.api.auth import person
from harness.api.routes.jobs import job_changed
from harness.api.schemas.base import Items
from harness.api.schemas.jobs import JobChanged
from harness.api.schemas.rates import RateTestIn, RateTestOut, RateUseIn
from harness.csv import csv_chunks
from harness.jobs.copying import edits_given_way
from harness.jobs.models import Job
from harness.jobs.selectors import job_get
from harness.rates import selectors, services
from harness.rates.models import RateTest
from harness.rates.sending import rate_test_expire
from harness.responses import chunks_response

router = Router()
_POINT = ("rate", "loss", "loss_fit", "score", "log_fit")


def _job(request: HttpRequest, job_id: str) -> Job:
    return job_get(user=person(request), job_id=job_id)


@router.post("/{job_id}/rates", response={202: RateTestOut}, summary="Find the learning rate")
def rate_test_start(
    request: HttpRequest, job_id: str, body: Annotated[RateTestIn | None, Body()] = None
) -> Status[Any]:
    """Have an idle device train for some hundred steps while the learning rate rises, and read the curve; then, where
    that costs little or is asked for, make a few short trainings around its centre.

    The job itself, its checkpoints and its state stay as they are. Ask for the test until its `state` is not `waiting`.
    """
    job, body = _job(request, job_id), body or RateTestIn.model_validate({})
    test = services.rate_test_start(
        user=person(request), job=job, kind=body.device or "", low=body.low, high=body.high, trials=body.trials
    )
    return Status(202, _out(test, job))


@router.get("/{job_id}/rates", response=Items[RateTestOut], summary="Range tests of a job")
def rate_tests(request: HttpRequest, job_id: str) -> dict[str, Any]:
    """The newest first."""
    job = _job(request, job_id)
    return {"items": [_out(test, job) for test in selectors.rate_tests(job)]}


@router.get("/{job_id}/rates/{test_id}", response=RateTestOut, summary="A range test")
def rate_test(request: HttpRequest, job_id: str, test_id: str) -> dict[str, Any]:
    """Ask again while its `state` is `waiting`."""
    job = _job(request, job_id)
    test = selectors.rate_test_get(job=job, test_id=test_id)
    rate_test_expire(test)
    return _out(test, job)


@router.get("/{job_id}/rates/{test_id}/curve.csv", summary="A range test as CSV")
def rate_test_csv(request: HttpRequest, job_id: str, test_id: str) -> HttpResponseBase:
    """Loss, score and fits at every rate."""
    test = selectors.rate_test_get(job=_job(request, job_id), test_id=test_id)
    chunks = csv_chunks(selectors.CURVE_COLUMNS, selectors.rate_curve_need(test))
    return chunks_response(request, chunks, content_type="text/csv; charset=utf-8", filename=f"rates-{test.pk}.csv")


@router.post("/{job_id}/rates/{test_id}/use", response=JobChanged, summary="Use a rate of a range test")
def rate_use(
    request: HttpRequest, job_id: str, test_id: str, body: Annotated[RateUseIn | None, Body()] = None
) -> dict[str, Any]:
    """Put it into the spec of a draft, as `training.learning_rate`; the program is made anew, edits are kept."""
    job, body = _job(request, job_id), body or RateUseIn.model_validate({})
    test = selectors.rate_test_get(job=job, test_id=test_id)
    job = services.rate_use(user=person(request), job=job, test=test, rate=body.rate)
    return job_changed(job, edits_given_way(job))


def _out(test: RateTest, job: Job) -> dict[str, Any]:
    found = selectors.rate_found(test)
    names = selectors.rate_names(test)
    return {
        "id": test.pk, "state": test.state, "progress": test.progress, "device": test.kind,
        "device_model": test.model_name, "node": test.node_name, "batch_size": test.batch_size,
        "optimizer": test.optimizer, "rate": test.rate,
        **{name: names.get(name) for name in selectors.SUGGESTED},
        "alternatives": {name: rate for name, rate in names.items() if name not in selectors.SUGGESTED},
        "trials": selectors.rate_trials(test),
        "degree": found.loss_fit.degree if found else None,
        "log_fit_of": found.log_fit_of if found else "",
        "diverged_at": found.diverged_at if found else None,
        "notes": list(found.notes) if found else [],
        "curve": [dict(zip(_POINT, row, strict=True)) for row in selectors.rate_curve(test)],
        "problem": test.problem, "current": selectors.rate_test_is_current(test, job),
        "used_rate": test.used_rate, "took_s": test.took_s, "created_at": test.created_at,
    }  # fmt: skip

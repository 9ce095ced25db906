"""Predict with a trained job: a form made from its columns, or a file."""

from __future__ import annotations

import json
import math
from functools import partial
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse

from codegen.profile.types import CLOCKS, DECIMAL_COMMA, ColumnProfile, DataKind, DatasetProfile
from codegen.spec import Task
from harness.accounts.models import Role, User
from harness.errors import HarnessError, Invalid
from harness.jobs.models import Job
from harness.jobs.predictions import FROM_END, takes_threshold
from harness.jobs.selectors import (
    job_checkpoints,
    job_get,
    job_profile,
    job_results,
    prediction_get,
    prediction_has_own,
    prediction_list,
    prediction_output_get,
)
from harness.jobs.services import prediction_create, prediction_delete
from harness.pages.job_view import header
from harness.pages.predict_calls import calls
from harness.pages.prediction_view import prediction_context
from harness.pages.profile_view import number_written
from harness.pages.results_view import typical_error
from harness.pages.target import target_of
from harness.pages.verdict import classes_tested
from harness.pages.web import asks_part, can, can_delete, change, page, page_number, person, show
from harness.pages.words import FORM_INPUT
from harness.paging import page_within

PREDICTIONS_SHOWN = 10
USUAL_THRESHOLD = 0.5
"""From here on the class is the more probable one of two."""
CHOICES_MOST = 60
"""With more values than this a category is written, not chosen."""


def input_fields(job: Job, profile: DatasetProfile) -> list[dict[str, Any]]:
    """One input per feature column of the run, with a typical value filled in."""
    shape = (job.resolved.get("spec") or {}).get("shape") or {}
    kinds = ("numeric", "categorical", "dates", "texts")
    used = [(name, kind) for kind in kinds for name in shape.get(kind, ())] if isinstance(shape, dict) else []
    columns = [(profile.column(name), kind) for name, kind in used]
    return [_field(column, kind) for column, kind in columns if column is not None]


def _field(column: ColumnProfile, kind: str) -> dict[str, Any]:
    is_number = kind == "numeric"
    is_clock = is_number and column.spelling in CLOCKS
    values = [value for value, _ in column.top_values]
    middle = column.quantiles[2] if len(column.quantiles) == 5 else column.mean
    seen = values[:1] if kind == "categorical" else column.examples
    typical = middle if is_number else next(iter(seen), "")
    if kind == "dates":
        typical = str(typical).removesuffix(" 00:00:00")
    return {
        "name": column.name,
        "number": is_number,
        "text": kind == "texts",
        "decimal_comma": column.spelling.startswith(DECIMAL_COMMA),  # a unit may follow
        "clock": is_clock,
        "typical": "" if typical is None else f"{typical:.6g}" if isinstance(typical, float) else typical,
        "choices": values if kind == "categorical" and len(values) <= CHOICES_MOST else [],
        "seen": [number_written(column, end) for end in (column.minimum, column.maximum) if end is not None],
        "hint": "a date, like 2020-01-31"
        if kind == "dates"
        else "a duration or a time of day, like 0:38:53, or seconds"
        if is_clock
        else "",
    }


@page("GET", "HEAD", "POST")
def job_predict(request: HttpRequest, job_id: str) -> HttpResponseBase:
    """The form; POST asks a node and goes to the answer's page."""
    user = person(request)
    job = job_get(user=user, job_id=job_id)
    profile = job_profile(job)
    fields = [] if job.task == Task.FORECAST else input_fields(job, profile)
    two_classes = _two_classes(job)
    error: HarnessError | None = None
    if request.method == "POST":
        job_get(user=user, job_id=job_id, role=Role.MEMBER)
        try:
            name, data = (FROM_END, b"") if request.POST.get("from_end") else _input(request, fields)
            prediction = prediction_create(
                user=user,
                job=job,
                input_name=name,
                data=data,
                checkpoint=request.POST.get("checkpoint", ""),
                threshold=_threshold(request, two_classes),
            )
            return redirect("prediction_page", job_id=job_id, prediction_id=prediction.pk)
        except HarnessError as problem:
            error = problem
    for field in fields:
        field["value"] = request.POST.get(f"field:{field['name']}", field["typical"])
    context = {
        **_form(request, user, job, fields),
        "is_table": profile.kind == DataKind.TABLE,
        "two_classes": two_classes,
        "error": error,
    }
    return show(request, "jobs/predict.html", context, nav="jobs", status=error.status if error else 200)


def _form(request: HttpRequest, user: User, job: Job, fields: list[dict[str, Any]]) -> dict[str, Any]:
    """What the page shows beside an error: the form as it was sent, earlier predictions, and the same as a call."""
    is_forecast = job.task == Task.FORECAST
    return {
        "job": job,
        "header": header(job),
        "fields": fields,
        "is_forecast": is_forecast,
        "known_ahead": ((job.resolved.get("spec") or {}).get("data") or {}).get("known") or [],
        "checkpoints": job_checkpoints(job),
        "checkpoint": request.POST.get("checkpoint") or request.GET.get("checkpoint", ""),
        "threshold": request.POST.get("threshold", f"{USUAL_THRESHOLD}"),
        "usual_threshold": f"{USUAL_THRESHOLD}",
        "threshold_class": request.POST.get("threshold_class", ""),
        "predictions": page_within(
            prediction_list(user=user, job=job), page=page_number(request), page_size=PREDICTIONS_SHOWN
        ),
        **_may(user, job),
        "limit_bytes": settings.PREDICTION_LIMIT_BYTES,
        "calls": calls(
            job.pk, settings.PORTAL_URL, {field["name"]: _example(field) for field in fields}, from_end=is_forecast
        ),
    }


def _two_classes(job: Job) -> list[str]:
    """The classes that a threshold may be for, the rarer one first; none of more classes, or of an older program."""
    try:
        results = job_results(job)
    except HarnessError:  # it predicts with a checkpoint
        return []
    tested, classes = classes_tested(results), results.get("classes")
    if len(tested) != 2 or not isinstance(classes, list) or len(classes) != 2 or not takes_threshold(job):
        return []
    return [found.name for found in sorted(tested, key=lambda found: found.rows)]


def _threshold(request: HttpRequest, two_classes: list[str]) -> str:
    """`CLASS=P` as it was chosen; empty for the usual one, where the more probable class is the answer. Raises
    `Invalid`."""
    text = request.POST.get("threshold", "").strip().replace(",", ".")
    if not two_classes or not text:
        return ""
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        hint = f"Write a probability from 0 to 1, like {USUAL_THRESHOLD}."
        raise Invalid(f"The threshold {text!r} is none.", field="threshold", hint=hint)
    named = request.POST.get("threshold_class", "")
    if named not in two_classes:
        hint = f"Choose {' or '.join(two_classes)}."
        raise Invalid(f"{named[:100]!r} is no class of this model.", field="threshold_class", hint=hint)
    return "" if share == USUAL_THRESHOLD else f"{named}={share}"


def _may(user: User, job: Job) -> dict[str, bool]:
    """Whether a person may predict, and delete predictions of others; their own, whoever may predict."""
    may_change = can(user, job.project, Role.MEMBER)
    return {"may_change": may_change, "may_delete_all": may_change and can_delete(user, job.project, job.owner_id)}


def _example(field: dict[str, Any]) -> Any:
    """The typical value of a column as JSON has it; None where none is known."""
    if field["typical"] == "":
        return None
    return float(field["typical"]) if field["number"] else field["typical"]


def _input(request: HttpRequest, fields: list[dict[str, Any]]) -> tuple[str, bytes]:
    """(file name, bytes) of the uploaded file, else of the form as one JSON row. Raises `Invalid`."""
    file = request.FILES.get("file")
    if file is not None:
        return str(file.name), file.read(settings.PREDICTION_LIMIT_BYTES + 1)
    if not fields:
        raise Invalid("No file was chosen.", field="file", hint="Choose a file, as the form says.")
    row: dict[str, Any] = {}
    for field in fields:
        text = request.POST.get(f"field:{field['name']}", "").strip().replace("\r\n", "\n")  # lines of a text area
        if text == "":
            row[field["name"]] = None
        elif field["number"] and not (field["clock"] and ":" in text):
            row[field["name"]] = _number(field, text)
        else:
            row[field["name"]] = text
    return FORM_INPUT, json.dumps([row]).encode()


def _number(field: dict[str, Any], text: str) -> float:
    """What was typed, read as the column's values were. Raises `Invalid`."""
    written = text.replace(".", "").replace(",", ".") if field["decimal_comma"] and "," in text else text
    try:
        value = float(written)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        example = "3,5" if field["decimal_comma"] else "3.5"
        raise Invalid(
            f"{field['name']}: {text!r} is not a number.", field=field["name"], hint=f"Write it like {example}."
        )
    return value


@page("GET", "HEAD")
def prediction_page(request: HttpRequest, job_id: str, prediction_id: str) -> HttpResponseBase:
    """The answer as a table; while the node works, a fragment that asks again."""
    user = person(request)
    job = job_get(user=user, job_id=job_id)
    prediction = prediction_get(user=user, job=job, prediction_id=prediction_id)
    context: dict[str, Any] = {"job": job, "prediction": prediction, **_may(user, job)}
    if prediction.state == "done":
        target = target_of(job).heading
        context |= prediction_context(prediction_output_get(prediction), prediction.input_name, target)
        context["has_own"] = prediction.input_name != FORM_INPUT and prediction_has_own(prediction)
        is_final = target and not prediction.checkpoint
        context |= {"target": target, "typical_error": typical_error(job) if is_final else None}
    template = "jobs/prediction_part.html" if asks_part(request) else "jobs/prediction.html"
    return show(request, template, context, nav="jobs")


@page("POST")
def prediction_remove(request: HttpRequest, job_id: str, prediction_id: str) -> HttpResponseBase:
    """Delete it with its input and its answer."""
    user = person(request)
    job = job_get(user=user, job_id=job_id)
    prediction = prediction_get(user=user, job=job, prediction_id=prediction_id)
    to, failed_to = reverse("job_predict", args=[job.pk]), reverse("prediction_page", args=[job.pk, prediction.pk])
    delete = partial(prediction_delete, user=user, prediction=prediction)
    return change(request, delete, done="The prediction was deleted.", to=to, failed_to=failed_to)

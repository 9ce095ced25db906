"""Routes: predictions with a job's weights."""

from __future__ import annotations

import json
from typing import Annotated, Any

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from ninja import File, Form, Query, Router, Status
from ninja.errors import HttpError
from ninja.files import UploadedFile
from pydantic import ValidationError

from harness.api.auth import person
from harness.api.paging import Paging, page_body
from harness.api.problems import problem_words
from harness.api.schemas.base import Done, PageOf
from harness.api.schemas.telemetry import THRESHOLD_LETTERS_MAX, PredictionJsonIn, PredictionOut
from harness.api.throttles import PerMinute
from harness.errors import Invalid, TooLarge
from harness.jobs import selectors, services
from harness.jobs.models import Job, Prediction
from harness.jobs.predictions import FROM_END
from harness.paging import page_of
from harness.plain import json_read
from harness.responses import begun, chunks_response, file_response
from worker.words import size_words

router = Router()
ROWS_SHOWN_MAX = 1000
PER_MINUTE_MAX = 120
_BODY_HINT = "Send {records: [{column: value}]}, or {from_end: true} of a forecast."
_JSON_BODY: dict[str, Any] = {
    "requestBody": {"content": {"application/json": {"schema": PredictionJsonIn.model_json_schema()}}}
}


def _job(request: HttpRequest, job_id: str) -> Job:
    return selectors.job_get(user=person(request), job_id=job_id)


def _out(prediction: Prediction, output: dict[str, Any] | None = None) -> dict[str, Any]:
    names = ["id", "state", "checkpoint", "input_name", "rows", "problem", "created_at", "finished_at"]
    shown = {**output, "rows": output["rows"][:ROWS_SHOWN_MAX]} if output else None
    return {**{name: getattr(prediction, name) for name in names}, "job": prediction.job_id, "output": shown}


@router.post(
    "/{job_id}/predictions",
    response={201: PredictionOut},
    summary="Predict",
    openapi_extra=_JSON_BODY,
    throttle=[PerMinute("predictions", PER_MINUTE_MAX)],
)
def prediction_create(
    request: HttpRequest,
    job_id: str,
    input: Annotated[UploadedFile | None, File()] = None,
    checkpoint: Annotated[str, Form(max_length=40)] = "",
    threshold: Annotated[str, Form(max_length=THRESHOLD_LETTERS_MAX)] = "",
) -> Status[Any]:
    """Predict for a file (form field `input`: csv, tsv, json, jsonl, parquet, xlsx, ods, pictures or a zip) or for JSON
    records.

    A forecast goes on from the end of the data with the JSON body `{"from_end": true}`, from newer rows with a file.

    With `threshold`, `CLASS=P`, what is of that class with a probability of P or more is called by it and nothing else;
    without one the most probable class is the answer.

    The answer is `waiting`; ask for it again until it is `done` or `failed`.
    """
    job = _job(request, job_id)
    if input is None:
        name, data, checkpoint, threshold = _records(request)
    else:
        if (input.size or 0) > settings.PREDICTION_LIMIT_BYTES:
            raise TooLarge(
                f"An input has at most {size_words(settings.PREDICTION_LIMIT_BYTES)}.", hint="Split it.", field="input"
            )
        name, data = input.name or "", input.read()
    prediction = services.prediction_create(
        user=person(request), job=job, input_name=name, data=data, checkpoint=checkpoint, threshold=threshold
    )
    return Status(201, _out(prediction))


def _records(request: HttpRequest) -> tuple[str, bytes, str, str]:
    """(name of the input, its bytes, checkpoint, threshold)."""
    if request.content_type != "application/json":
        raise Invalid("There is no input.", field="input", hint="Send a file as form field `input`, or JSON records.")
    body = _json_body(request)
    if body.from_end:
        return FROM_END, b"", body.checkpoint, body.threshold
    return "records.json", _records_bytes(body.records), body.checkpoint, body.threshold


def _json_body(request: HttpRequest) -> PredictionJsonIn:
    if not request.body:
        raise Invalid("The request has no body.", hint=_BODY_HINT)
    try:
        given = json_read(request.body)
    except ValueError as error:
        raise HttpError(400, "The body cannot be read.") from error
    try:
        return PredictionJsonIn.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if not first["loc"] and first["type"] == "model_attributes_type":
            raise Invalid("The body must be an object.", hint=_BODY_HINT) from error
        field = ".".join(str(part) for part in first["loc"]) or "records"
        raise Invalid(f"{field}: {problem_words(dict(first))}", field=field, hint=_BODY_HINT) from error


def _records_bytes(records: list[dict[str, Any]]) -> bytes:
    """Raises `Invalid` for NaN and infinity, which pandas writes where a value is missing."""
    try:
        return json.dumps(records, allow_nan=False).encode()
    except ValueError as error:
        places = ((number, name, value) for number, record in enumerate(records) for name, value in record.items())
        number, column, value = next(place for place in places if not _is_finite(place[2]))
        told = (
            f"must be a finite number, not {value}" if isinstance(value, float) else "holds a number that is not finite"
        )
        field, hint = f"records.{number}.{column}", "Send null where a value is missing."
        raise Invalid(f"{field}: {told}", field=field, hint=hint) from error


def _is_finite(value: Any) -> bool:
    """Whether it is, and all that it holds."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


@router.get("/{job_id}/predictions", response=PageOf[PredictionOut], summary="Predictions of a job")
def prediction_list(request: HttpRequest, job_id: str, paging: Annotated[Paging, Query()]) -> dict[str, Any]:
    """Newest first, without their rows."""
    rows = selectors.prediction_list(user=person(request), job=_job(request, job_id))
    return page_body(page_of(rows, page=paging.page, page_size=paging.page_size), _out)


@router.get("/{job_id}/predictions/{prediction_id}.csv", summary="A prediction as CSV")
def prediction_csv(request: HttpRequest, job_id: str, prediction_id: str) -> HttpResponseBase:
    """All rows."""
    chunks = begun(iter(selectors.prediction_csv(_prediction(request, job_id, prediction_id))))
    return chunks_response(
        request, chunks, content_type="text/csv; charset=utf-8", filename=f"prediction-{prediction_id[:12]}.csv"
    )


@router.api_operation(
    ["GET", "HEAD"], "/{job_id}/predictions/{prediction_id}/file", summary="The input with the answer added"
)
def prediction_file(request: HttpRequest, job_id: str, prediction_id: str) -> HttpResponseBase:
    """The file of rows that was sent, unchanged but for the columns of the answer behind its own. 404 for pictures."""
    name, stream = selectors.prediction_own_open(_prediction(request, job_id, prediction_id))
    return file_response(request, stream, filename=name)


@router.get("/{job_id}/predictions/{prediction_id}", response=PredictionOut, summary="A prediction")
def prediction_get(request: HttpRequest, job_id: str, prediction_id: str) -> dict[str, Any]:
    """Its state and, when done, its first rows."""
    prediction = _prediction(request, job_id, prediction_id)
    done = prediction.state == "done"
    return _out(prediction, selectors.prediction_output_get(prediction) if done else None)


@router.delete("/{job_id}/predictions/{prediction_id}", response=Done, summary="Delete a prediction")
def prediction_delete(request: HttpRequest, job_id: str, prediction_id: str) -> Done:
    """With its input and its answer; 409 while a node works on it. Cannot be undone."""
    services.prediction_delete(user=person(request), prediction=_prediction(request, job_id, prediction_id))
    return Done()


def _prediction(request: HttpRequest, job_id: str, prediction_id: str) -> Prediction:
    user, job = person(request), _job(request, job_id)
    return selectors.prediction_get(user=user, job=job, prediction_id=prediction_id)

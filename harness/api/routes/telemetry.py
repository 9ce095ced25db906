"""Routes: what a run says about itself, and its results."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpRequest, HttpResponseBase
from ninja import Query, Router
from pydantic import Field

from harness.api.auth import person
from harness.api.schemas.base import Items, Strict
from harness.api.schemas.telemetry import AttemptOut, CheckpointOut, EventOut, LogsOut, SeriesOut
from harness.jobs import selectors
from harness.jobs.control.width_request import width_of
from harness.jobs.logs import LIMIT_MAX, LogPart
from harness.jobs.models import Job, JobAttempt, JobEvent
from harness.jobs.series import AXES, POINTS_MAX
from harness.responses import begun, chunks_response, file_response

router = Router()
KEYS_MAX = 200
Axis = Literal["step", "epoch", "time", "relative"]
assert set(AXES) == {"step", "epoch", "time", "relative"}  # noqa: S101  (the schema names each)
Rank = Annotated[int | None, Query(None, ge=0, le=4096, description="One rank only.")]
Token = Annotated[int | None, Query(None, ge=0, le=10**6, description="Number of the attempt; left out: the newest.")]


class KeysQuery(Strict):
    """Which curves."""

    # A parameter of its own called `keys` would hide the method of the mapping that ninja collects arguments in.
    keys: list[Annotated[str, Field(max_length=80)]] = Field(
        [], max_length=KEYS_MAX, description="May be repeated; none: all.", examples=[["train/loss", "val/loss"]]
    )


class SeriesQuery(KeysQuery):
    """Which curves, how fine, over which axis."""

    points: int = Field(2000, ge=2, le=POINTS_MAX)
    x: Axis = "step"
    start: float | None = Field(None, allow_inf_nan=False, description="First step.")
    stop: float | None = Field(None, allow_inf_nan=False, description="Last step.")


class LogQuery(Strict):
    """Which lines."""

    rank: int | None = Field(None, ge=0, le=4096, description="One rank only.")
    token: int | None = Field(None, ge=0, le=10**6, description="Number of the attempt; left out: the newest.")
    query: str = Field("", max_length=200, description="Literal text, letter case ignored.")
    level: Literal["", "info", "warning", "error"] = Field("", description="This level and worse.")
    after_line: int = Field(0, ge=0, le=10**12, description="Only lines after this one of each rank.")
    limit: int = Field(500, ge=1, le=LIMIT_MAX)
    tail: bool = Field(False, description="The last lines instead of the first.")


def _job(request: HttpRequest, job_id: str) -> Job:
    return selectors.job_get(user=person(request), job_id=job_id)


def _event(event: JobEvent) -> dict[str, Any]:
    names = ["id", "at", "kind", "old_state", "new_state", "token", "message", "data"]
    actor = event.actor.username if event.actor else None
    return {**{name: getattr(event, name) for name in names}, "actor": actor}


def _attempt(attempt: JobAttempt) -> dict[str, Any]:
    names = ["number", "outcome", "failure", "world_size", "created_at", "started_at", "running_at", "ended_at"]
    plan = attempt.run_plan
    return {
        **{name: getattr(attempt, name) for name in names},
        "ranks": len(width_of(attempt)),
        "width_changes": attempt.width.get("changes", 0),
        "nodes": sorted(plan.nodes),
        "mode": plan.mode,
        "resume_from": plan.resume_from,
    }


@router.get("/{job_id}/events", response=Items[EventOut], summary="History of a job")
def events(
    request: HttpRequest,
    job_id: str,
    after: Annotated[int, Query(ge=0, description="Only entries with a greater id.")] = 0,
    limit: Annotated[int, Query(ge=1, le=5000)] = 1000,
) -> dict[str, Any]:
    """Changes of state, notes, errors, what people did; oldest first."""
    rows = selectors.job_events(_job(request, job_id)).filter(id__gt=after)
    return {"items": [_event(row) for row in rows[:limit]]}


@router.get("/{job_id}/series", response=SeriesOut, summary="Curves")
def series(request: HttpRequest, job_id: str, wanted: Annotated[SeriesQuery, Query()]) -> dict[str, Any]:
    """Curves by name, cut to `points` by least and greatest value per bucket, so that spikes survive."""
    job = _job(request, job_id)
    return {
        "x": wanted.x,
        "keys": selectors.job_series_keys(job),
        "series": selectors.job_series(job=job, **wanted.model_dump()),
    }


@router.get("/{job_id}/series.csv", summary="Curves as CSV")
def series_csv(request: HttpRequest, job_id: str, wanted: Annotated[KeysQuery, Query()]) -> HttpResponseBase:
    """Every point, exact: key, step, epoch, time_s, value."""
    job = _job(request, job_id)
    return _csv(request, selectors.job_series_csv(job=job, keys=wanted.keys), f"series-{job.pk}.csv")


@router.get("/{job_id}/samples", response=Items[dict[str, Any]], summary="CPU, memory, GPU")
def samples(
    request: HttpRequest, job_id: str, token: Token, points: Annotated[int, Query(ge=1, le=5000)] = 600
) -> dict[str, Any]:
    """What the run used over time, thinned evenly."""
    return {"items": selectors.job_samples(job=_job(request, job_id), points=points, token=token)}


@router.get("/{job_id}/logs", response=LogsOut, summary="Logs")
def logs(request: HttpRequest, job_id: str, lines: Annotated[LogQuery, Query()]) -> dict[str, Any]:
    """Lines of an attempt, searched here over all of them."""
    part = LogPart(**lines.model_dump(include={"after_line", "limit", "tail"}))
    wanted = lines.model_dump(include={"rank", "token", "query", "level"})
    return selectors.job_logs(job=_job(request, job_id), **wanted, part=part)


@router.get("/{job_id}/logs.txt", summary="Download the logs")
def logs_text(request: HttpRequest, job_id: str, rank: Rank, token: Token) -> HttpResponseBase:
    """Everything an attempt wrote; `token=0`: all attempts."""
    job = _job(request, job_id)
    chunks = begun(selectors.job_logs_text(job=job, rank=rank, token=token))
    return chunks_response(request, chunks, content_type="text/plain; charset=utf-8", filename=f"logs-{job.pk}.txt")


@router.get("/{job_id}/checkpoints", response=Items[CheckpointOut], summary="Checkpoints")
def checkpoints(
    request: HttpRequest,
    job_id: str,
    removed: Annotated[bool, Query(description="With those that were removed again.")] = False,
) -> dict[str, Any]:
    """Saved states that can be resumed or predicted with, newest first."""
    return {"items": list(selectors.job_checkpoints(_job(request, job_id), removed=removed))}


@router.api_operation(["GET", "HEAD"], "/{job_id}/checkpoints/{checkpoint}/state.pt", summary="Download a checkpoint")
def checkpoint_state(request: HttpRequest, job_id: str, checkpoint: str) -> HttpResponseBase:
    """Its weights and what else a run needs to go on, as PyTorch wrote them; honours `Range`."""
    job = _job(request, job_id)
    return file_response(request, selectors.checkpoint_open(job, checkpoint), filename=f"{job.pk}-{checkpoint}.pt")


@router.get("/{job_id}/attempts", response=Items[AttemptOut], summary="Attempts")
def attempts(request: HttpRequest, job_id: str) -> dict[str, Any]:
    """Starts of the job on the pool, newest first."""
    return {"items": [_attempt(row) for row in selectors.job_attempts(_job(request, job_id))]}


@router.get("/{job_id}/results", response=dict[str, Any], summary="Results")
def results(request: HttpRequest, job_id: str) -> dict[str, Any]:
    """Metrics per part, charts with their data, environment, timing. 404 until the run has ended."""
    return selectors.job_results(_job(request, job_id))


@router.get("/{job_id}/charts/{chart}.csv", summary="A chart as CSV")
def chart_csv(request: HttpRequest, job_id: str, chart: str) -> HttpResponseBase:
    """The rows that the chart draws."""
    job = _job(request, job_id)
    return _csv(request, selectors.job_chart_csv(job, chart), f"{job.pk}-chart.csv")


def _csv(request: HttpRequest, chunks: Any, filename: str) -> HttpResponseBase:
    return chunks_response(request, begun(iter(chunks)), content_type="text/csv; charset=utf-8", filename=filename)

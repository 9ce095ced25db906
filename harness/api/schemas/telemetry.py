"""What a run says about itself, and predictions with what it made."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from ninja import Schema
from pydantic import Field, model_validator

from harness.api.schemas.base import Strict


class EventOut(Schema):
    """One entry of a job's history."""

    id: int
    at: datetime
    kind: str
    old_state: str
    new_state: str
    token: int
    actor: str | None
    message: str
    data: dict[str, Any]


class CheckpointOut(Schema):
    """A saved state of a run."""

    name: str = Field(examples=["step-00000240"])
    step: int
    epoch: float
    metric: float | None
    size_bytes: int
    best: bool
    token: int
    created_at: datetime


class AttemptOut(Schema):
    """One start of a job on the pool."""

    number: int
    outcome: str
    failure: dict[str, Any] | None
    world_size: int = Field(description="Ranks that it began with.")
    ranks: int = Field(description="Ranks that it has, or is to have soon.")
    width_changes: int = Field(description="How often it became wider or narrower while it ran.")
    nodes: list[str]
    mode: str
    resume_from: str | None
    created_at: datetime
    started_at: datetime | None
    running_at: datetime | None
    ended_at: datetime | None


class SeriesOne(Schema):
    """One curve. A value that was not finite is null."""

    x: list[float]
    y: list[float | None]
    total: int = Field(description="Points there are.")
    reduced: bool = Field(description="Fewer points are given than there are.")


class SeriesOut(Schema):
    """Curves by name."""

    x: str = Field(description="What the x values are.")
    keys: list[str] = Field(description="All curves that this job has.")
    series: dict[str, SeriesOne]


class LogLine(Schema):
    """One line of one rank, escape sequences removed."""

    token: int
    rank: int
    line: int = Field(description="From 1 in its rank's file.")
    text: str
    level: str


class LogsOut(Schema):
    """Lines of an attempt."""

    lines: list[LogLine]
    tokens: list[int] = Field(description="Attempts that have logs.")
    ranks: list[int]
    token: int
    more: bool
    stopped_rank: int | None = Field(None, description="The search ran out of time in this rank; null: it did not.")
    stopped_line: int | None = Field(None, description="At this line of it: `after_line` for who searches on.")


class PredictionOut(Schema):
    """A prediction request and, when done, its first rows."""

    id: str
    job: str
    state: Literal["waiting", "done", "failed"]
    checkpoint: str
    input_name: str
    rows: int | None
    problem: dict[str, Any] | None
    created_at: datetime
    finished_at: datetime | None
    output: dict[str, Any] | None = Field(
        None,
        description="`{columns, rows}`, at most the first 1,000 rows; `notes` on how they were read. Of a number "
        "`prediction_low` and `prediction_high` are the ends of a range around it, of which `ranges` tells more; both "
        "are left out for weights without ranges.",
    )


THRESHOLD_LETTERS_MAX = 1000
"""Of `CLASS=P`: a class is a value of the data."""


class PredictionJsonIn(Strict):
    """Rows to predict for, as JSON records; or nothing but that a forecast is to go on from the end of the data."""

    records: list[dict[str, Any]] = Field([], max_length=10_000)
    from_end: bool = Field(False, description="Forecast from the end of the data, without records.")
    checkpoint: str = Field("", max_length=40)
    threshold: str = Field(
        "",
        max_length=THRESHOLD_LETTERS_MAX,
        description="`CLASS=P`: what is of that class with a probability of P or more is called by it, nothing else.",
    )

    @model_validator(mode="after")
    def _has_one(self) -> PredictionJsonIn:
        if bool(self.records) == self.from_end:
            raise ValueError("give one record at least, or from_end, not both")
        return self

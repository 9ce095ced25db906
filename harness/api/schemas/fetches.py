"""Datasets from web addresses."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Schema
from pydantic import Field

from harness.api.schemas.base import Strict
from harness.fetches.models import FetchState


class FetchIn(Strict):
    """What to fetch, and what to make of it."""

    url: str = Field(description="http or https, of the file itself.", examples=["https://data.example.org/iris.csv"])
    project: str = Field("", description="Slug; empty: `default_project` of `/me`, refused where there is none.")
    name: str = Field("", max_length=120, description="Of the dataset; empty: made from the file's name.")
    options: dict[str, Any] | None = Field(
        None, description="`column_types`, `target`, `delimiter`, `encoding`, `header`."
    )


class FetchOut(Schema):
    """A file on its way from a web address."""

    id: str = Field(examples=["k3v8q2m7h4tz"])
    url: str = Field(description="Without its query, which may hold a secret.")
    filename: str = Field(examples=["iris.csv"])
    project: str = Field(description="Slug of its project.", examples=["vision"])
    state: FetchState
    offset_bytes: int = Field(description="What has arrived.")
    total_bytes: int | None = Field(description="As the server says; null: it does not.")
    rate_bytes_s: float = Field(description="Over the last few seconds.")
    left_s: float | None = Field(description="At this rate; null: unknown.")
    problem: dict[str, Any] | None = Field(description="Why the last try ended: code, message, hint.")
    due_at: datetime = Field(description="While it waits: not before.")
    dataset: str | None = Field(description="Id of the dataset, once the whole file has arrived.")
    created_at: datetime

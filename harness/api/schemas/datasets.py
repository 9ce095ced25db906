"""Datasets and what is known of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from ninja import Schema
from pydantic import Field

from codegen.profile.types import ColumnType
from harness.api.schemas.base import Strict
from harness.datasets.models import DatasetState


class DatasetRef(Schema):
    """A dataset, by its names."""

    id: str = Field(examples=["k3v8q2m7h4tz"])
    name: str = Field(examples=["iris"])


class UploadOut(Schema):
    """An unfinished upload."""

    id: str = Field(examples=["k3v8q2m7h4tz"])
    filename: str = Field(examples=["iris.csv"])
    project: str = Field(description="Slug of its project.", examples=["vision"])
    offset_bytes: int = Field(description="What has arrived; continue from there.")
    size_bytes: int
    expires_at: datetime = Field(description="Removed then, unless a piece arrives before.")


class DatasetOut(DatasetRef):
    """A dataset; its profile has an address of its own."""

    project: str = Field(description="Slug of its project.", examples=["vision"])
    owner: str = Field(examples=["ada"])
    state: DatasetState
    source_name: str = Field(examples=["iris.csv"])
    source_bytes: int
    progress: float = Field(description="0-1 while it is being read.")
    progress_note: str
    options: dict[str, Any] = Field(description="What it is read with: column types, target, delimiter, encoding.")
    kind: str | None = Field(description="`table` or `images`; null until it has been read.")
    rows: int | None = Field(description="Rows of the table, or good pictures.")
    task: str | None = Field(description="Guessed problem type.")
    target: str | None = Field(description="Column to predict, guessed or set.")
    target_reason: str = Field(description="Why this one; empty until it has been read.")
    notes: list[str] = Field(description="What a change of types means for a target that was guessed, in sentences.")
    problem: dict[str, Any] | None = Field(description="Why it cannot be used: code, message, hint, row, column, file.")
    same_as: list[DatasetRef] = Field(
        description="Earlier datasets of the project of the same bytes, read alike; only told by `GET /datasets/ID`."
    )
    created_at: datetime
    deleted_at: datetime | None = Field(description="In the trash since.")


class DatasetPatch(Strict):
    """What to change; other column types, target, delimiter or encoding have the file read anew."""

    name: str | None = Field(None, max_length=120)
    column_types: dict[str, ColumnType | Literal[""]] | None = Field(
        None, description="Added to the overrides there are; an empty type takes one back."
    )
    target: str | None = Field(None, description="Column to predict; empty takes it back.")
    options: dict[str, Any] | None = Field(None, description="`delimiter`, `encoding`.")


class RowsOut(Schema):
    """Rows as they were understood. Pictures come without their bytes."""

    columns: list[str]
    rows: list[list[Any]]
    total: int
    offset: int

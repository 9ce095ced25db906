"""Saved views of the list of jobs."""

from __future__ import annotations

from datetime import datetime

from ninja import Schema
from pydantic import Field

from harness.api.schemas.base import Strict

_QUERY = "state=failed&sort=-metric&column=state&column=metric_best"


class JobViewIn(Strict):
    """A new view."""

    name: str = Field(max_length=60)
    query: str = Field("", max_length=6000, description="As the address of the page Jobs has it.", examples=[_QUERY])
    project: str = Field("", description="Slug: shared with its members; empty: the caller's own.")


class JobViewPatch(Strict):
    """What to change."""

    name: str | None = Field(None, max_length=60)
    query: str | None = Field(None, max_length=6000)
    project: str | None = Field(None, description="Slug: share it with its members; empty: make it one's own again.")


class JobViewOut(Schema):
    """Filters, order and columns under a name."""

    id: str = Field(examples=["m4x7d2p9c5ra"])
    name: str
    owner: str
    project: str | None = Field(description="Slug of the project whose members see it; null: its owner alone.")
    query: str = Field(description="As the address of the page Jobs has it.", examples=[_QUERY])
    columns: list[str] = Field(description="What the list shows beside the name, in order.")
    is_default: bool = Field(description="The caller's list of jobs opens with it.")
    created_at: datetime

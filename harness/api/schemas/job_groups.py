"""Jobs by groups."""

from __future__ import annotations

from typing import Any

from ninja import Schema
from pydantic import Field

from harness.api.schemas.base import PageOf


class JobRef(Schema):
    """A job by name."""

    id: str = Field(examples=["m4x7d2p9c5ra"])
    name: str


class JobGroupOut(Schema):
    """The jobs with one value."""

    value: Any = Field(description="Of the column grouped by; null: none.", examples=["cnn"])
    metric: str = Field(description="Which the score is one of; empty where the figure is not a score.")
    jobs: int = Field(description="Of any state.")
    n: int = Field(description="How many of them succeeded and have the figure: mean, sd and best are of these.")
    mean: float | None
    sd: float | None = Field(description="Standard deviation of a sample; null below two jobs.")
    best: float | None
    best_job: JobRef | None
    basis: str = Field(description="What energies rest on, most of them first; empty for other figures.")


class JobGroupsOut(PageOf[JobGroupOut]):
    """One page of groups."""

    by: str = Field(description="Column grouped by.", examples=["family"])
    of: str = Field(description="Column of the figure.", examples=["metric_best"])

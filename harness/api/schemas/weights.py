"""Weights files, for jobs to start from."""

from __future__ import annotations

from datetime import datetime

from ninja import Schema
from pydantic import Field


class WeightsRef(Schema):
    """A weights file, by its names."""

    id: str = Field(examples=["w5k2q9c3r7fa"])
    name: str = Field(examples=["resnet-imagenet"])


class WeightsOut(WeightsRef):
    """A weights file."""

    project: str = Field(description="Slug of its project.", examples=["vision"])
    owner: str = Field(examples=["ada"])
    sha256: str = Field(description="Of the file.")
    size_bytes: int
    tensors: int
    parameters: int = Field(description="Numbers in all tensors.")
    dtypes: list[str] = Field(description="Kinds of numbers, as safetensors names them.", examples=[["F32"]])
    jobs_count: int = Field(description="How many jobs start from it; it can be deleted where none does.")
    created_at: datetime

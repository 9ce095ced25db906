"""Learning-rate range tests."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from ninja import Schema
from pydantic import Field, field_validator

from harness.api.schemas.base import Strict


class RateTestIn(Strict):
    """On what, and between which rates; all of it may be left open."""

    device: Literal["cpu", "cuda"] | None = Field(None, description="Kind of device; null: any idle one.")
    low: float | None = Field(None, description="First learning rate; null: 1e-6.")
    high: float | None = Field(None, description="Last learning rate; null: 10.")


class RateUseIn(Strict):
    """Which rate to put into the spec."""

    rate: str | float = Field(
        "centre", description="low, centre, high, valley, steepest, minimum_tenth, linear, sqrt, or a number."
    )

    @field_validator("rate", mode="before")
    @classmethod
    def _no_flag(cls, value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError("must be a name or a number")
        return value


class RatePointOut(Schema):
    """What was seen at one rate."""

    rate: float
    loss: float | None = Field(description="Training loss, smoothed.")
    loss_fit: float | None = Field(description="The polynomial; null where it was not fitted.")
    score: float | None = Field(description="Training accuracy, or share of variance explained.")
    log_fit: float | None = Field(description="The logarithmic law of `log_fit_of`.")


class RateTestOut(Schema):
    """A range test: interval, centre, alternatives, curve."""

    id: str
    state: str = Field(description="`waiting`, `done` or `failed`.")
    progress: float = Field(description="Share that is done.")
    device: str
    device_model: str
    node: str = Field(description="Empty while no device is idle.")
    batch_size: int
    optimizer: str
    rate: float | None = Field(description="Peak rate that the tested program names.")
    low: float | None = Field(description="Usable rates lie between this ...")
    high: float | None = Field(description="... and this.")
    centre: float | None = Field(description="The suggestion.")
    alternatives: dict[str, float] = Field(
        description="valley, steepest, minimum_tenth: other readings of the curve; linear, sqrt: scaling rules."
    )
    degree: int | None = Field(description="Order of the polynomial.")
    log_fit_of: str = Field(description="`score`, `loss`, or empty: the law explains too little.")
    diverged_at: float | None
    notes: list[str]
    curve: list[RatePointOut]
    problem: dict[str, Any] | None = Field(description="Why there is no interval: `{code, message, hint}`.")
    current: bool = Field(description="The program is still the one that was tested.")
    used_rate: float | None = Field(description="What was put into the spec.")
    took_s: float | None
    created_at: datetime

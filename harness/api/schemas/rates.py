"""Learning-rate range tests."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from ninja import Schema
from pydantic import Field

from harness.api.schemas.base import Strict
from worker.rate_search import HIGHEST, LOWEST, USUAL_HIGH, USUAL_LOW


class RateTestIn(Strict):
    """On what, and between which rates; all of it may be left open."""

    device: Literal["cpu", "cuda"] | None = Field(None, description="Kind of device; null: any idle one.")
    low: float | None = Field(None, description=f"First learning rate, at least {LOWEST:g}; null: {USUAL_LOW:g}.")
    high: float | None = Field(None, description=f"Last learning rate, at most {HIGHEST:g}; null: {USUAL_HIGH:g}.")
    trials: Literal["auto", "always", "never"] = Field(
        "auto", description="Short trainings at a few rates around the centre: where they cost little, always, never."
    )


class RateUseIn(Strict):
    """Which rate to put into the spec."""

    rate: str | float = Field(
        "best",
        description="best (by trials, else the centre), low, centre, high, trials, valley, steepest, minimum_tenth, "
        "linear, sqrt, or a number.",
    )


class RatePointOut(Schema):
    """What was seen at one rate."""

    rate: float
    loss: float | None = Field(description="Training loss, smoothed.")
    loss_fit: float | None = Field(description="The polynomial; null where it was not fitted.")
    score: float | None = Field(description="Training accuracy, or share of variance explained.")
    log_fit: float | None = Field(description="The logarithmic law of `log_fit_of`.")


class RateTrialOut(Schema):
    """A short training."""

    round: int = Field(description="Losses of different rounds cannot be compared: they are of different lengths.")
    rate: float
    share: float = Field(description="Of the run's steps.")
    loss: float | None = Field(description="Of the validation rows after its last step; null: no finite number.")


class RateTrialsOut(Schema):
    """Short trainings around the centre of a range test."""

    state: str = Field(description="`waiting`, `done`, `failed`, or `none`: not made, see `why`.")
    why: str
    expected_s: float | None = Field(description="What all of them take at most, about; told before they begin.")
    most_share: float = Field(description="Of the run's steps, that all of them make at most.")
    share: float | None = Field(description="Of the run's steps, that they made.")
    rate: float | None = Field(description="The rate to take.")
    complete: bool | None = Field(description="False where the time was over first.")
    took_s: float | None
    notes: list[str]
    problem: dict[str, Any] | None
    done: list[RateTrialOut]


class RateTestOut(Schema):
    """A range test: interval, centre, alternatives, curve; and what trials around its centre say."""

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
    centre: float | None = Field(description="What the range test suggests.")
    best: float | None = Field(description="The suggestion: by trials where there are some, else the centre.")
    trials: RateTrialsOut | None = Field(description="Null while the range test goes on, and where it tells no centre.")
    alternatives: dict[str, float] = Field(
        description="trials, valley, steepest, minimum_tenth: other readings of the curve; linear, sqrt: scaling rules."
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

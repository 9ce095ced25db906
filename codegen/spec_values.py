"""What fields of a `TaskSpec` may hold: numbers within bounds, shares, moments."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from codegen.moments import day_as_its_end, no_number

Auto = Literal["auto"]
MOST = 10_000_000
"""Largest count that is taken for meant: beyond it no run would end and no column could hold it."""
RATE_MOST = 100.0
"""Largest peak learning rate: far beyond what any run trains with."""


def _no_flag(value: object) -> object:
    """`yes` and `true` are no numbers, though Python counts them as 1."""
    if isinstance(value, bool):
        raise ValueError(f"must be a number, not {str(value).lower()}")
    return value


def _in_a_zone(moment: datetime) -> datetime:
    """One without a zone is taken for UTC, so that whoever reads it need not guess."""
    known = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        known.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("must lie in the years 1 to 9999, in UTC as well") from error
    return known


Number = BeforeValidator(_no_flag)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), Number]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False), Number]
Rate = Annotated[float, Field(gt=0, le=RATE_MOST, allow_inf_nan=False), Number]
Count = Annotated[int, Field(ge=1, le=MOST), Number]
Fraction = Annotated[float, Field(ge=0, lt=1), Number]
# The last of the first two is asked first: '20300131' in quotes is a day.
Moment = Annotated[datetime, BeforeValidator(no_number), BeforeValidator(day_as_its_end), AfterValidator(_in_a_zone)]


class Part(BaseModel):
    """Base of all parts: unknown fields are errors, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)

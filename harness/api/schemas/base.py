"""Shapes that every room uses."""

from __future__ import annotations

from datetime import UTC, datetime
from types import UnionType
from typing import Annotated, Any, Generic, TypeVar, Union, get_args, get_origin

from ninja import Schema
from pydantic import AfterValidator, AwareDatetime, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from codegen.moments import no_number

Item = TypeVar("Item")


def _in_utc(moment: datetime) -> datetime:
    """As databases keep it."""
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("must lie in the years 1 to 9999, in UTC as well") from error


Moment = Annotated[AwareDatetime, BeforeValidator(no_number), AfterValidator(_in_utc)]


class Strict(Schema):
    """A request body: an unknown field is an error, so that a typo is never silently ignored."""

    model_config = ConfigDict(extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _no_flag(cls, value: object, info: ValidationInfo) -> object:
        """`true` is no number, though Python counts it as 1."""
        kinds = _kinds(cls.model_fields[str(info.field_name)].annotation)
        if isinstance(value, bool) and bool not in kinds and kinds & {int, float}:
            what = "a name or a number" if str in kinds else "a number"
            raise ValueError(f"must be {what}, not {str(value).lower()}")
        return value


def _kinds(annotation: object) -> frozenset[object]:
    """Types that an annotation allows: the one, or each of a union."""
    return frozenset(get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,))


class Items(Schema, Generic[Item]):
    """A whole list."""

    items: list[Item]


class PageOf(Schema, Generic[Item]):
    """One page of a list."""

    items: list[Item]
    total: int = Field(description="Rows that match the filters, over all pages.", examples=[42])
    page: int = Field(description="This page, from 1.", examples=[1])
    page_size: int = Field(examples=[50])
    pages: int = Field(description="Number of pages, at least 1.", examples=[1])


class Reason(Schema):
    """Why a request was not carried out, and what to do."""

    code: str = Field(examples=["not_found"])
    message: str
    hint: str = Field(description="What to do next; may be empty.")
    field: str | None = Field(description="Dotted name of the value at fault.")
    details: Any = Field(
        description="Of wrong values all problems, each with `field`, `message`, `hint`, `type`; of other refusals "
        "what the address says; null: nothing more."
    )


class Refusal(Schema):
    """The one shape of all errors."""

    error: Reason


class Done(Schema):
    """The request was carried out; nothing else to say."""

    ok: bool = True
